// The start of a run: the first step with initial weights, or a checkpoint of an earlier run.
#pragma once

#include "app/inputs/load_data.h"
#include "app/machine/autotune_cache.h"
#include "app/machine/factory.h"
#include "app/options/resumed_options.h"
#include "app/run/open_job.h"
#include "app/run/output_folder.h"
#include "checkpoint/folder_lock.h"
#include "checkpoint/run_state.h"
#include "comm/communicator.h"
#include "comm/mpi/session.h"
#include "core/log.h"
#include "ddp/step_costs.h"
#include "train/step/replica.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

struct ResumePoint {
  RunState state;                    // the same on all ranks; step 0 for a new run
  std::filesystem::path checkpoint;  // rank 0: the checkpoint to resume from; empty: a new run
  std::filesystem::path run_folder;  // rank 0: the folder of that run's results; with --resume auto, --output-dir
  bool resuming = false;
  std::optional<FolderLock> lock = {};  // rank 0: lock of the run's folder, if the folder exists

  std::vector<OptionChange> changes = {};  // of options, after the checkpoint; the same on all ranks
  RunState expected = {};                  // ResumedOptions::expected
  int optimizer_states = 0;                // in the checkpoint
};

// Finds the checkpoint that --resume means, with --resume auto in --output-dir: rank 0 reads it, all ranks get its
// state and the changes that its run has made since. Nothing where a rank has no --resume: open_job() refuses that.
// Takes no lock for --print-order. Collective. Throws CollectiveError: Exit::data, or Exit::output if another run uses
// the folder.
ResumePoint find_resume_point(const Options& given, MpiSession& session, const Log& log);

// The options of this process: `given`, completed by those of the run and by --change, or for a new run by the input of
// the weights of --init-from (begin_from.h). Completes `resume_point` and prints what has changed. Options that the run
// has from another kind of device are at their defaults; its network is read (share_model.h). Collective. Throws
// CollectiveError: Exit::usage, Exit::data (see resumed_options()).
Options take_up_options(const Options& given, ResumePoint& resume_point, MpiSession& session, const Log& log);

// The same for the doctor, which takes no lock and looks for no fault in checkpoints. Collective.
Options options_of_doctor(const Options& given, MpiSession& session);

// Opens the folder of the results: the resumed run's own folder, unless --output-dir (`dir`) names another one; for a
// new run --output-dir or a new folder. `resume_given`: whether the command line has --resume. `config`: the text of
// config.toml. On ranks other than 0 the path is empty. Takes over `resume_point.lock`. Throws Error(Exit::output).
OutputFolder open_folder(const std::string& dir, bool resume_given, const std::string& config,
                         ResumePoint& resume_point, int rank);

// Whether the checkpoint of `resume_point` belongs to the run in `folder`. False on ranks other than 0.
bool is_same_run(const std::filesystem::path& folder, const ResumePoint& resume_point);

// The settings of this run that a resumed run is compared with, as a RunState with no counters. `costs`: those that
// the replica's buckets were made from; none: the buckets have constant sizes.
RunState run_fingerprint(const Options& options, const LoadedData& data, const PixelNormalization& pixels,
                         const Backend& backend, int threads, const Replica& replica, const AutotuneCache& autotune,
                         const std::optional<StepCosts>& costs = std::nullopt);

// The measured normalization that the checkpoint records; nothing if it records none, or one of other channels, or if
// the run is new.
std::optional<PixelNormalization> earlier_pixels(const ResumePoint& resume_point, int64_t channels);

// The text of the checkpoint's AutotuneCache if rank 0 has the same device, libraries and precision as at the
// checkpoint; else an empty text. Collective over `world`, a communicator of host memory.
std::string earlier_autotune(const ResumePoint& resume_point, const Backend& backend, Communicator& world);

// Loads the checkpoint, or the initial weights and state, into the replica. `now`: this run's run_fingerprint().
// Returns the number of updates of the running statistics so far. Collective. Throws CollectiveError if an option of
// `now` would change the results of the resumed run, or if the checkpoint or the weights cannot be read.
int64_t restore_or_initialize(const Job& job, const ResumePoint& resume_point, const RunState& now, Replica& replica);

}  // namespace ddp
