// Every op as plain loops over dense tensors, with sums in double. Both backends are compared with these reference ops.
// They need neither oneDNN nor OpenMP, so a model can train on them under the thread sanitizer.
#pragma once

#include "device/device.h"
#include "ops/ops.h"

#include <memory>

namespace ddp {

std::unique_ptr<Ops> make_reference_ops(Device& device);

}  // namespace ddp
