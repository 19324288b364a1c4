// The folder that holds the checkpoints of a run. Rank 0 calls these functions.
#pragma once

#include "checkpoint/run_state.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// The folder of a run's checkpoints: `run_folder`/checkpoints.
std::filesystem::path checkpoints_of(const std::filesystem::path& run_folder);

// All paths in `folder` with a checkpoint's name, complete or not, the newest first. Empty without such a folder.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

// Keeps the `keep_last` newest checkpoints and the targets of `latest` and `best`; deletes the others. keep_last 0
// keeps all checkpoints. Ignores errors, since an extra folder does no harm.
void prune_checkpoints(const std::filesystem::path& folder, int keep_last);

// Finds a good checkpoint (one that read_run_state() accepts):
//   `wanted` is a checkpoint                         that one, else the newest good one before it in its folder
//   `wanted` is another folder with a manifest       that one
//   `wanted` is a run's folder or its checkpoints    the newest good one
// Follows `latest`, `best` and other links. `skipped` gets one line for each broken checkpoint that was skipped.
// Returns nothing where the folder has no checkpoint. Throws Error(Exit::data) where `wanted` does not exist, or where
// the folder has checkpoints and none is good.
struct FoundCheckpoint {
  std::filesystem::path path;
  std::filesystem::path run_folder;  // the run's folder; empty: the checkpoint is not in a folder `checkpoints`
  RunState state;
};
std::optional<FoundCheckpoint> find_checkpoint(const std::filesystem::path& wanted, std::vector<std::string>& skipped);

// Whether no newer good checkpoint lies beside it.
bool is_newest(const std::filesystem::path& checkpoint);

// Prepares the folder of `checkpoint` for a run that resumes from it in the same folder. Throws Error(Exit::output)
// where a newer good checkpoint exists, since two runs would then share the folder. Renames a newer broken checkpoint
// to broken-step-NNNNNNNN, so that it does not count as one of the newest.
void require_newest(const std::filesystem::path& checkpoint);

}  // namespace ddp
