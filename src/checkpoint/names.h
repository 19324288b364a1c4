// The names in a folder of checkpoints.
#pragma once

#include <cstdint>
#include <string>

namespace ddp {

std::string checkpoint_name(int64_t step);  // "step-00001234"

}  // namespace ddp
