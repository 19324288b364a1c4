// Token files as the data of a run.
#pragma once

#include "app/inputs/load_data.h"

namespace ddp {

// `resumed_vocabulary`: what the vocabulary.txt of a resumed run holds, in place of a file of --vocabulary that does
// not exist any more; empty: there is none. Throws Error: Exit::data for the files, Exit::usage for options that do not
// fit them.
LoadedData load_tokens(const DataConfig& config, const std::string& resumed_vocabulary);

}  // namespace ddp
