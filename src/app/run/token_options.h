// Which options of a training do not fit data of tokens.
#pragma once

#include "app/options/options.h"

namespace ddp {

// Throws Error(Exit::usage) for an option that needs images or their classes. Options of the data:
// app/inputs/options_fit_data.h.
void require_options_for_tokens(const Options& options);

}  // namespace ddp
