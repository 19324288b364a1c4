// ddp_train predict of a network that reads tokens: continues texts.
#pragma once

#include "app/commands/predict/predict_options.h"
#include "core/error.h"
#include "core/log.h"

#include <cstdio>
#include <filesystem>
#include <istream>

namespace ddp {

// Refuses the options of networks that read something else. Throws Error(Exit::usage).
void require_options_fit_network(const PredictOptions& options, const ModelInfo& info);

// Writes each text of `options` with its continuation to `out`, as it is made; "-" stands for the lines of `list`. A
// continuation ends before <|endoftext|>, which also begins a text without tokens. Returns early if the reader of `out`
// has ended. Throws Error as predict() does, Exit::usage where there is no vocabulary, and Exit::numerics where the
// network computes NaN or infinity.
Exit continue_texts(const PredictOptions& options, const ModelInfo& info, const std::filesystem::path& weights,
                    std::istream& list, std::FILE* out, const Log& log);

}  // namespace ddp
