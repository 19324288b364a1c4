// Token files as the data of a run.
#pragma once

#include "app/inputs/load_data.h"

namespace ddp {

inline constexpr int64_t kSequenceLength = 1024, kGpt2Vocabulary = 50257;  // the defaults

// Throws Error: Exit::data for the files, Exit::usage for options that do not fit them.
LoadedData load_tokens(const DataConfig& config);

}  // namespace ddp
