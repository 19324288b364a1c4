// ddp_train predict: says what a trained network sees in pictures. Runs on the CPU; on one rank without MPI.
#pragma once

#include "comm/mpi/session.h"
#include "core/error.h"
#include "core/log.h"
#include "health/signals.h"

#include <cstdint>
#include <cstdio>
#include <istream>
#include <span>
#include <string>

namespace ddp {

// Writes a line for each picture to `out`, or to the file of --csv, in the order of `arguments`, which follow
// "predict". `list` is the list that "-" stands for. Returns Exit::data if a picture could not be read, which its line
// says, or which is of a kind that is not read. Warns of the files of folders that it leaves out. Throws Error:
// Exit::usage, Exit::data or Exit::model for the network, Exit::output where `out` or the file cannot be written.
Exit predict(std::span<const std::string> arguments, std::istream& list, std::FILE* out);

// The same on all ranks: rank 0 writes the same lines in the same order. Returns Exit::stopped after a stop signal; the
// file of --csv is then not there. Collective. Throws CollectiveError: as above, or Exit::communication.
Exit predict_on_ranks(std::span<const std::string> arguments, std::istream& list, std::FILE* out, MpiSession& session,
                      const Signals& signals);

void warn_of_animated(const Log& log, int64_t animated, int64_t pictures);

}  // namespace ddp
