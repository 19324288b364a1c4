// The names in a folder of checkpoints.
#pragma once

#include <cstdint>
#include <string>

namespace ddp {

std::string checkpoint_name(int64_t step);  // "step-00001234"

inline constexpr const char* kAverageFile = "model_ema.safetensors";  // of checkpoints, and of a run's folder

}  // namespace ddp
