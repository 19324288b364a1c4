#include "app/output_folder.h"

#include "core/durable_file.h"
#include "core/error.h"
#include "train/checkpoint.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

namespace ddp {
namespace fs = std::filesystem;

namespace {

// True where it was not there before.
bool create(const fs::path& folder) {
  std::error_code error;
  const bool created = fs::create_directory(folder, error);
  require(!error, Exit::output, "cannot create the output folder {}: {}; choose another --output-dir", folder.string(),
          error.message());
  return created;
}

fs::path fresh_folder() {
  create("runs");
  const std::string base = fmt::format("runs/{:%Y-%m-%d_%H-%M-%S}", fmt::localtime(std::time(nullptr)));
  fs::path folder = base;
  for (int i = 2; !create(folder); ++i) folder = fmt::format("{}_{}", base, i);
  return folder;
}

void require_no_more(const fs::path& folder, OutputFolder::May may) {
  const auto refuse = [&](const char* name) {
    fail(Exit::output,
         "{} already holds a run ({}); go on with it by --resume, choose another --output-dir, or remove it",
         folder.string(), name);
  };
  std::error_code error;
  for (const char* name : {"summary.json", "model.safetensors"})
    if (fs::exists(folder / name, error)) refuse(name);
  if (!list_checkpoints(folder / "checkpoints").empty()) refuse("checkpoints");
  if (may == OutputFolder::May::hold_a_beginning) return;
  for (const char* name : {"config.toml", "metrics.jsonl", "checkpoints"})
    if (fs::exists(folder / name, error)) refuse(name);
}

fs::path named_folder(const fs::path& folder, OutputFolder::May may) {
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, Exit::output, "cannot create the output folder {}: {}; choose another --output-dir", folder.string(),
          error.message());
  if (may != OutputFolder::May::hold_the_run) require_no_more(folder, may);
  return folder;
}

// The kernel gives it back when the process ends, however it ends. File systems without locks do without.
int lock(const fs::path& folder, bool patient) {
  const int file = ::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  require(file >= 0, Exit::output, "cannot write to {}: {}; choose another --output-dir", folder.string(),
          std::strerror(errno));
  for (int tenths = 0; ::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++tenths) {
    if (patient && tenths < 50) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    ::close(file);
    fail(Exit::output, "another run still writes to {}; end it first, or choose another --output-dir", folder.string());
  }
  return file;
}

}  // namespace

OutputFolder::OutputFolder(const std::string& wanted, May may, const std::string& config)
    : path_(wanted.empty() ? fresh_folder() : named_folder(wanted, may)), lock_(lock(path_, may != May::hold_nothing)) {
  replace_file(path_ / "config.toml", config);
}

OutputFolder::~OutputFolder() {
  if (lock_ >= 0) ::close(lock_);
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

}  // namespace ddp
