// The checkpoints of a run, which lie beside each other in one folder. Rank 0 calls.
#pragma once

#include "train/run_state.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// Where a run keeps its checkpoints.
std::filesystem::path checkpoints_of(const std::filesystem::path& run_folder);

// Those in `folder` by name, the newest first; whole or not. None where there is no such folder.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

// Deletes all but the `keep_last` newest and the ones that `latest` and `best` point to, and what interrupted writes
// have left. 0: none is deleted but such leftovers. Errors are ignored: a folder too many does no harm.
void prune_checkpoints(const std::filesystem::path& folder, int keep_last);

// Where `wanted` is a checkpoint, it or the newest good one before it in its folder; where it is a run's folder or its
// checkpoints, the newest good one. `latest`, `best` and other links stand for what they lead to. Those that are broken
// are passed over, and told in `passed_over`, a line each. Throws Error(Exit::data) where `wanted` does not exist, or
// where there are checkpoints and none is good; empty where there is none at all.
struct FoundCheckpoint {
  std::filesystem::path path;
  std::filesystem::path run_folder;  // the folder that holds `checkpoints`; empty where it does not lie in one
  RunState state;
};
std::optional<FoundCheckpoint> find_checkpoint(const std::filesystem::path& wanted, std::vector<std::string>& skipped);

// For a run that goes on from `checkpoint` in the same folder. Throws Error(Exit::output) where a newer one is good,
// for two runs would share the folder's checkpoints from there on; one that is broken gets another name, so that it
// does not count as one of the last.
void require_newest(const std::filesystem::path& checkpoint);

}  // namespace ddp
