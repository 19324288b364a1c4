// The only place that knows which device, which ops and which network a name stands for.
#pragma once

#include "app/options.h"
#include "device/device.h"
#include "nn/network.h"
#include "ops/ops.h"

#include <memory>

namespace ddp {

struct Backend {
  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
};

// Throws Error(Exit::device) where --device names what this machine or this build does not have.
Backend make_backend(const Options& options, int local_rank, int threads);

Network make_network(const Options& options, ImageShape image, int classes);

}  // namespace ddp
