// Where a run begins: at its first step, with initial weights, or where an earlier run has left off.
#pragma once

#include "app/autotune_cache.h"
#include "app/factory.h"
#include "app/folder_lock.h"
#include "app/options.h"
#include "app/output_folder.h"
#include "comm/communicator.h"
#include "comm/mpi/session.h"
#include "core/log.h"
#include "data/dataset.h"
#include "train/replica.h"
#include "train/run_state.h"

#include <cstdint>
#include <filesystem>
#include <optional>

namespace ddp {

struct ResumePoint {
  RunState state;                    // the same on all ranks; its step is 0 where the run is new
  std::filesystem::path checkpoint;  // rank 0, of a run that goes on
  std::filesystem::path run_folder;  // the same: which that run's results are in
  bool resuming = false;
  std::optional<FolderLock> lock = {};  // rank 0: of the run's folder, where there was one
};

// What --resume asks for. Rank 0 reads, all ranks learn. Collective over `world`, whose device is the host. Throws
// CollectiveErrors.
ResumePoint find_resume_point(const Options& options, MpiSession& session, Communicator& world, const Log& log);

// Where the results go: into the run's own folder where it goes on there, else into --output-dir or a fresh one. Rank
// 0's; the others' has no path. Takes the beginning's lock. Throws Error(Exit::output).
OutputFolder open_folder(const Options& options, ResumePoint& resume_point, int rank);

// Whether what the run begins from lies in this folder: false on ranks other than 0.
bool is_same_run(const std::filesystem::path& folder, const ResumePoint& resume_point);

// What this run must have in common with one that goes on from its checkpoints.
RunState run_fingerprint(const Options& options, const Datasets& data, uint64_t data_fingerprint,
                         const Backend& backend, int threads, const Replica& replica, const AutotuneCache& autotune);

// The choices of algorithms to make again: those of the checkpoint if it was made by a backend with the same identity,
// else empty. Collective.
std::string earlier_autotune(const ResumePoint& resume_point, const Backend& backend, Communicator& world);

// Gives the replica its weights and state, those of the checkpoint or initial ones. `now`: this run's
// identity; throws a CollectiveError where the beginning does not go with it. Returns how often the running statistics
// have been updated. Collective.
int64_t restore_or_initialize(const Options& options, const ResumePoint& resume_point, const RunState& now,
                              Replica& replica, MpiSession& session, Communicator& world, const Log& log);

}  // namespace ddp
