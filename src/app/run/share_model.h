// The network of --model on all ranks: rank 0 reads the file, because the ranks may not share a file system.
#pragma once

#include "app/options/options.h"
#include "checkpoint/run_state.h"
#include "comm/mpi/session.h"

#include <filesystem>

namespace ddp {

// Sets `network.source`, unless it is set. `network.model` is the same on all ranks. Collective. Throws
// CollectiveError: Exit::data where the file cannot be read or is too large.
void share_model(NetworkConfig& network, MpiSession& session);

// The same for a resumed run. A network from a file is that of the checkpoint, unless --model is given now: then the
// file is read, so that require_same_results() compares it. A given path that the run has recorded may be missing, as
// on another machine. `checkpoint`: on rank 0. Collective. Throws CollectiveError: Exit::data also where the checkpoint
// has no such network.
void share_resumed_model(Options& options, const RunState& saved, const std::filesystem::path& checkpoint,
                         MpiSession& session);

// DataConfig::default_sequence_length for the network that is shared: 1024, or as many as its positions, if these are
// fewer. 1024 also for a network that reads images, and for one that make_network() refuses.
int64_t default_sequence_length(const NetworkConfig& network, int64_t vocabulary_size);

}  // namespace ddp
