// Shared by the GPU tests: the backend, memory that tests write and read from the host, and a norm for comparisons.
// tests/ops/reference gives the expected values, for inputs with the GPU's rounding.
#pragma once

#include "comm/add.h"
#include "device/buffer.h"
#include "device/cuda/device.h"
#include "ops/cuda/ops.h"
#include "tests/ops/fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace ddp::testing {

struct Gpu {
  explicit Gpu(Precision precision, bool deterministic = false)
      : device(make_cuda_device({})),
        ops(make_cuda_ops(*device, {.precision = precision, .deterministic = deterministic, .agree = {}})) {}

  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
};

constexpr Precision kPrecisions[] = {Precision::fp32, Precision::tf32, Precision::bf16};

inline std::string name_of(Precision precision) {
  return precision == Precision::fp32 ? "fp32" : precision == Precision::tf32 ? "tf32" : "bf16";
}

// Relative tolerances: of convolutions and linear layers, and of ops without matrix products.
inline double tolerance_of(Precision precision) {
  return precision == Precision::fp32 ? 1e-5 : precision == Precision::tf32 ? 2e-3 : 2e-2;
}
inline double elementwise_tolerance_of(Precision precision) { return precision == Precision::bf16 ? 2e-2 : 1e-5; }

// Prints a figure for the table of `check`. If several figures have the same name, the table shows the maximum.
inline void print_figure(const char* name, double value) { std::printf("figure: %s = %.2g\n", name, value); }

inline void expect_agrees(const Values& actual, const Values& expected, const char* what, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double error = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  const double relative = norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
  EXPECT_LE(relative, tolerance) << what;  // also fails on NaN
  print_figure("error", relative);
}

template <class T>
Buffer uploaded(Device& device, const std::vector<T>& values) {
  Buffer buffer(device, values.size() * sizeof(T));
  device.upload(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}

template <class T>
std::vector<T> downloaded(Device& device, const Buffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  device.download(values.data(), buffer.data(), buffer.bytes());
  device.synchronize();
  return values;
}

// An array on the GPU in f32 or bf16. Without values it holds NaN, so a test sees every element that an op did not
// write.
class OnGpu {
 public:
  OnGpu(Device& device, const Values& values, DType dtype = DType::f32) : device_(device), dtype_(dtype) {
    if (dtype == DType::f32) {
      buffer_ = uploaded(device, values);
      return;
    }
    std::vector<uint16_t> narrow;
    for (const float v : values) narrow.push_back(bf16_of_float(v));
    buffer_ = uploaded(device, narrow);
  }
  OnGpu(Device& device, int64_t count, DType dtype = DType::f32)
      : OnGpu(device, Values(count, std::numeric_limits<float>::quiet_NaN()), dtype) {}

  float* f32() const { return buffer_.as<float>(); }
  Tensor tensor(const Shape& shape) const { return {buffer_.data(), shape, {}, dtype_}; }
  std::vector<char> bits() const { return downloaded<char>(device_, buffer_); }
  Values values() const {
    if (dtype_ == DType::f32) return downloaded<float>(device_, buffer_);
    Values values;
    for (const uint16_t v : downloaded<uint16_t>(device_, buffer_)) values.push_back(float_of_bf16(v));
    return values;
  }

 private:
  Device& device_;
  DType dtype_;
  Buffer buffer_;
};

}  // namespace ddp::testing
