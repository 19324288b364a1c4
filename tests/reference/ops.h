// Every op in plain loops over dense tensors, summed in double: the judge of both backends. It needs neither oneDNN nor
// OpenMP, so a model can be trained on it under the thread sanitizer.
#pragma once

#include "device/device.h"
#include "ops/ops.h"

#include <memory>

namespace ddp {

std::unique_ptr<Ops> make_reference_ops(Device& device);

}  // namespace ddp
