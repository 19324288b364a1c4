// The folder of a run's results. One run at a time writes to it.
#pragma once

#include "checkpoint/folder_lock.h"

#include <filesystem>
#include <optional>
#include <string>

namespace ddp {

class OutputFolder {
 public:
  // The content that the folder may have: no files of a run; a run without checkpoints and results; the run that is
  // resumed, with any content.
  enum class Content { none, no_results, same_run };

  // Creates `wanted`, or a new runs/<time> where `wanted` is empty, takes its lock unless `held` is that lock, deletes
  // the leftovers of interrupted writes, and writes `config` to config.toml. Throws Error(Exit::output) where the
  // folder cannot be written, has links in place of its folders, has more than the allowed content, or is locked by
  // another run; a run with --resume waits FolderLock::kWaitSeconds for the lock, others do not. Rank 0 only.
  OutputFolder(const std::string& wanted, Content allowed, const std::string& config,
               std::optional<FolderLock> held = {});
  OutputFolder() = default;  // no folder, empty path

  const std::filesystem::path& path() const { return path_; }

  // Throws Error(Exit::output) where the folder has been removed or replaced. Thread-safe.
  void require_in_place() const {
    if (lock_) lock_->require_in_place();
  }

 private:
  std::filesystem::path path_;
  std::optional<FolderLock> lock_;
};

}  // namespace ddp
