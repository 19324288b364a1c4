// The start of a run with the weights of a file (--init-from).
#pragma once

#include "app/options/options.h"
#include "app/run/open_job.h"
#include "checkpoint/state_dict.h"
#include "comm/mpi/session.h"
#include "core/log.h"
#include "train/step/replica.h"

namespace ddp {

// `given` with the input of the file's network where the metadata of the file have it; a line says what was taken over.
// The resumed run keeps these values, as if they had been given. Without --init-from `given` itself. Collective; rank 0
// alone reads the file. Throws CollectiveError: Exit::data for a broken file, Exit::usage.
Options with_inherited_input(const Options& given, MpiSession& session, const Log& log);

// The weights of --init-from, on rank 0. Throws Error: Exit::data for a broken file, Exit::numerics for NaN or
// infinity, Exit::model where tensors or classes do not fit.
ModelState initial_weights_from_file(const Job& job, const Replica& replica);

}  // namespace ddp
