#include "app/run/output_folder.h"

#include "checkpoint/folder.h"
#include "core/durable_file.h"
#include "core/error.h"

#include <fmt/chrono.h>

#include <ctime>
#include <utility>

namespace ddp {
namespace fs = std::filesystem;

namespace {

// Returns true where the folder is new.
bool create(const fs::path& folder) {
  std::error_code error;
  const bool created = fs::create_directory(folder, error);
  require(!error, Exit::output, "cannot create the output folder {}: {}; choose another --output-dir", folder.string(),
          error.message());
  return created;
}

fs::path fresh_folder() {
  create_durable_folders("runs");
  const std::string base = fmt::format("runs/{:%Y-%m-%d_%H-%M-%S}", fmt::localtime(std::time(nullptr)));
  fs::path folder = base;
  for (int i = 2; !create(folder); ++i) folder = fmt::format("{}_{}", base, i);
  flush_folder("runs");
  return folder;
}

void require_allowed(const fs::path& folder, OutputFolder::Content allowed) {
  const auto refuse = [&](const char* name) {
    fail(Exit::output, "{} already has a run ({}); resume it with --resume, choose another --output-dir, or remove it",
         folder.string(), name);
  };
  std::error_code error;
  for (const char* name : {"summary.json", "model.safetensors"})
    if (fs::exists(folder / name, error)) refuse(name);
  if (!list_checkpoints(checkpoints_of(folder)).empty()) refuse("checkpoints");
  if (allowed == OutputFolder::Content::no_results) return;
  for (const char* name : {"config.toml", "model.toml", "metrics.jsonl", "checkpoints"})
    if (fs::exists(folder / name, error)) refuse(name);
}

fs::path named_folder(const fs::path& folder) {
  create_durable_folders(folder);
  return folder;
}

}  // namespace

OutputFolder::OutputFolder(const std::string& wanted, Content allowed, const std::string& config,
                           std::optional<FolderLock> held)
    : path_(wanted.empty() ? fresh_folder() : named_folder(wanted)), lock_(std::move(held)) {
  if (!lock_) lock_.emplace(path_, allowed == Content::none ? 0 : FolderLock::kWaitSeconds);
  require_in_place();
  if (allowed != Content::same_run) require_allowed(path_, allowed);
  for (const fs::path& folder : {checkpoints_of(path_), path_ / "flight"}) {
    require_no_link(folder);
    remove_leftovers(folder);
  }
  remove_leftovers(path_);
  replace_file(path_ / "config.toml", config);
}

}  // namespace ddp
