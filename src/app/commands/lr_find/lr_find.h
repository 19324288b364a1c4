// ddp_train lr-find: suggests a learning rate by a range test.
#pragma once

#include "comm/mpi/session.h"
#include "core/error.h"
#include "core/log.h"
#include "health/signals.h"

#include <span>
#include <string>

namespace ddp {

// `arguments` come after "lr-find". Any number of ranks. Rank 0 prints the result and writes the page. Returns
// Exit::done, also where no rate can be suggested, or Exit::stopped after a stop signal. Collective. Throws
// CollectiveError as a run does in its first three stages, and Exit::output for a page that cannot be written.
Exit lr_find(std::span<const std::string> arguments, MpiSession& session, const Signals& signals, const Log& log);

}  // namespace ddp
