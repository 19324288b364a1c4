// The folder that holds a run's results. One run at a time writes to it.
#pragma once

#include "app/folder_lock.h"

#include <filesystem>
#include <optional>
#include <string>

namespace ddp {

class OutputFolder {
 public:
  // What the folder may hold already: nothing of a run, one that was begun but has neither checkpoints nor results, or
  // the run that goes on.
  enum class Content { none, no_results, same_run };

  // Makes `wanted`, or a fresh runs/<time> where it is empty, takes its lock unless that is held, and writes
  // config.toml into it. Throws Error(Exit::output) where the folder cannot be written, where it holds more than it
  // may, or where another run still writes to it, for which all but a new run wait a while. Called by rank 0 only.
  OutputFolder(const std::string& wanted, Content allowed, const std::string& config,
               std::optional<FolderLock> held = {});
  OutputFolder() = default;  // of no path

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<FolderLock> lock_;
};

}  // namespace ddp
