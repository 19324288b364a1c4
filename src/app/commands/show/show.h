// ddp_train show: writes the training pictures as the network gets them.
#pragma once

#include "comm/mpi/session.h"
#include "core/error.h"
#include "core/log.h"
#include "health/signals.h"

#include <span>
#include <string>

namespace ddp {

// `arguments` come after "show". The world must have one rank. The samples are those of a training with the same
// options on any number of ranks, in the order of its global batches. Files are created, never overwritten; after an
// error or a stop signal none is left. Throws CollectiveError: Exit::usage, Exit::data, or Exit::output for a file that
// exists or cannot be written.
Exit show(std::span<const std::string> arguments, MpiSession& session, const Signals& signals, const Log& log);

}  // namespace ddp
