// Shared by the GPU tests: the backend, and figures for the table of `check`.
#pragma once

#include "device/cpu/device.h"
#include "device/cuda/device.h"
#include "ops/cuda/ops.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace ddp::testing {

struct Gpu {
  explicit Gpu(Precision precision, bool deterministic = false)
      : device(make_cuda_device({})),
        ops(make_cuda_ops(*device, {.precision = precision, .deterministic = deterministic})) {}

  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
};

// Prints a figure for the table of `check`. If several figures have the same name, the table shows the maximum.
inline void print_figure(const char* name, double value) { std::printf("figure: %s = %.2g\n", name, value); }

}  // namespace ddp::testing
