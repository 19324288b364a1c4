// ddp_train evaluate: measures a trained network on labelled data, on any number of ranks. Each sample counts exactly
// once, so the number of ranks changes no count.
#pragma once

#include "comm/mpi/session.h"
#include "core/error.h"
#include "health/signals.h"

#include <span>
#include <string>

namespace ddp {

// Prints the figures and writes evaluation.json and confusion.csv to --output-dir. `arguments` follow "evaluate".
// Returns Exit::stopped after a stop signal. Collective. Throws CollectiveError: Exit::usage, Exit::data, Exit::model,
// Exit::output, Exit::device, Exit::numerics where the network computes NaN or infinity, or Exit::communication if the
// ranks see different data or weights.
Exit evaluate(MpiSession& session, const Signals& signals, std::span<const std::string> arguments);

}  // namespace ddp
