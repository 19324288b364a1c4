// The folder that holds a run's results. One run at a time writes to it.
#pragma once

#include <filesystem>
#include <string>

namespace ddp {

class OutputFolder {
 public:
  // Makes `wanted`, or a fresh runs/<time> where it is empty, takes its lock, and writes config.toml into it. Throws
  // Error(Exit::output) where the folder cannot be written, where it holds a run already, unless that `goes_on`, or
  // where another run still writes to it, for which a run that goes on waits a while. Called by rank 0 only.
  OutputFolder(const std::string& wanted, bool goes_on, const std::string& config);
  OutputFolder() = default;  // of no path
  ~OutputFolder();           // gives the lock back
  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace ddp
