#include "app/commands/doctor/measure.h"
#include "core/durable_file.h"
#include "core/stopwatch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>

namespace ddp::doctor {
namespace fs = std::filesystem;

namespace {

constexpr size_t kBytes = size_t{4} << 20;
constexpr double kMB = 1e6, kSlow = 10 * kMB;  // a second
constexpr int64_t kLowSpace = int64_t{1} << 30;

// Notes the missing folders of a path. The destructor removes those that are empty.
class MissingFolders {
 public:
  explicit MissingFolders(const fs::path& folder) {
    std::error_code error;
    for (fs::path at = fs::absolute(folder); !fs::exists(at, error) && at.has_relative_path(); at = at.parent_path())
      missing_.push_back(at);
  }
  ~MissingFolders() {
    std::error_code ignored;
    for (const fs::path& folder : missing_) fs::remove(folder, ignored);
  }
  MissingFolders(const MissingFolders&) = delete;
  MissingFolders& operator=(const MissingFolders&) = delete;

 private:
  std::vector<fs::path> missing_;  // the deepest first
};

}  // namespace

OutputTrial try_output(const fs::path& folder) {
  OutputTrial trial;
  trial.folder = folder;
  const MissingFolders made(folder);
  const fs::path file = folder / fmt::format(".doctor-{}", getpid());
  std::error_code error;
  try {
    create_durable_folders(folder);
    trial.free = static_cast<int64_t>(fs::space(folder, error).available);
    const std::string content(kBytes, 'd');
    const Stopwatch watch;
    write_durable_file(file, content);
    trial.bytes_per_second = kBytes / std::max(watch.seconds(), 1e-9);
  } catch (const Error& e) {
    trial.error = problem_of(e);
  }
  fs::remove(file, error);
  return trial;
}

Findings check_output(const OutputTrial& trial) {
  const std::string folder = trial.folder.string();
  const char* const elsewhere = "ddp_train --output-dir FOLDER";
  if (!trial.error.empty())
    return with_found({fault(Exit::output, trial.error, elsewhere)}, "output folder", folder + ": cannot be written");
  const std::string found = fmt::format("{}: {:.0f} MB/s flushed to the disk, {:.1f} GiB free", folder,
                                        trial.bytes_per_second / kMB, static_cast<double>(trial.free) / kLowSpace);
  Findings problems;
  if (trial.bytes_per_second < kSlow)
    problems.push_back(warn(fmt::format("{} writes {:.1f} MB/s: training waits where a checkpoint is due before the "
                                        "last one is written",
                                        folder, trial.bytes_per_second / kMB),
                            "ddp_train --save-every 10min"));
  if (trial.free < kLowSpace)
    problems.push_back(warn(fmt::format("{} has {:.2f} GiB free: checkpoints may not fit", folder,
                                        static_cast<double>(trial.free) / kLowSpace),
                            "ddp_train --keep-last 1"));
  return with_found(std::move(problems), "output folder", found);
}

}  // namespace ddp::doctor
