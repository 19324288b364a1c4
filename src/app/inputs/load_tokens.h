// Token files as the data of a run.
#pragma once

#include "app/inputs/load_data.h"

namespace ddp {

// Throws Error: Exit::data for the files, Exit::usage for options that do not fit them.
LoadedData load_tokens(const DataConfig& config);

}  // namespace ddp
