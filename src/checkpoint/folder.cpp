#include "checkpoint/folder.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "core/durable_file.h"
#include "core/error.h"
#include "core/printable.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>
#include <variant>

namespace ddp {
namespace fs = std::filesystem;

namespace {

constexpr const char* kFolder = "checkpoints";

// The step in a checkpoint's name; -1: another name.
int64_t step_of(const std::string& name) {
  const size_t digits = name.find_first_of("0123456789");
  if (digits == std::string::npos || name.size() - digits > 18) return -1;
  const int64_t step = std::strtoll(name.c_str() + digits, nullptr, 10);
  return checkpoint_name(step) == name ? step : -1;
}

bool is_checkpoint_name(const std::string& name) { return step_of(name) >= 0; }

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    entries.push_back(entry->path());
  return entries;
}

// An absolute path without a slash at its end.
fs::path normalized(const fs::path& path) {
  const fs::path place = fs::absolute(path).lexically_normal();
  return place.has_filename() ? place : place.parent_path();
}

// The target of a link, which need not exist; a path that is no link is returned as it is.
fs::path link_target(const fs::path& place) {
  std::error_code error;
  const fs::path target = fs::read_symlink(place, error);
  return error ? place : normalized(place.parent_path() / target);
}

fs::path run_folder_of(const fs::path& checkpoints) {
  return checkpoints.filename() == kFolder ? checkpoints.parent_path() : fs::path();
}

// The checkpoint's state, or the reason why it is broken.
std::variant<RunState, std::string> state_or_reason(const fs::path& checkpoint) {
  try {
    return read_run_state(checkpoint);
  } catch (const Error& e) {
    return std::string(e.what());
  }
}

// The first good checkpoint. Adds a reason to `skipped` for each broken one before it.
std::optional<FoundCheckpoint> first_good(const std::vector<fs::path>& checkpoints, std::vector<std::string>& skipped) {
  std::vector<std::string> reasons;
  for (const fs::path& checkpoint : checkpoints) {
    auto result = state_or_reason(checkpoint);
    if (auto* const state = std::get_if<RunState>(&result)) {
      skipped.insert(skipped.end(), reasons.begin(), reasons.end());
      return FoundCheckpoint{checkpoint, run_folder_of(checkpoint.parent_path()), std::move(*state)};
    }
    reasons.push_back(std::get<std::string>(result));
  }
  if (reasons.empty()) return std::nullopt;
  fail(Exit::data, "no checkpoint in {} is good: {}", printable(checkpoints.front().parent_path().native()),
       fmt::join(reasons, "; "));
}

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("step-{:08}", step); }

fs::path checkpoints_of(const fs::path& run_folder) { return run_folder / kFolder; }

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<fs::path> checkpoints = entries_of(folder);
  std::erase_if(checkpoints, [](const fs::path& path) { return !is_checkpoint_name(path.filename()); });
  std::ranges::sort(checkpoints,
                    [](const fs::path& a, const fs::path& b) { return step_of(a.filename()) > step_of(b.filename()); });
  return checkpoints;
}

// A checkpoint is renamed to a temporary name before it is deleted: no folder with a checkpoint's name is incomplete.
void prune_checkpoints(const fs::path& folder, int keep_last) {
  if (keep_last <= 0) return;
  const std::vector<fs::path> checkpoints = list_checkpoints(folder);
  const std::set<fs::path> linked = {link_target(folder / "latest").filename(),
                                     link_target(folder / "best").filename()};
  std::vector<fs::path> renamed;
  for (size_t i = static_cast<size_t>(keep_last); i < checkpoints.size(); ++i) {
    const fs::path name = checkpoints[i].filename();
    if (linked.contains(name)) continue;
    const fs::path temporary = folder / temporary_name(name);
    std::error_code error;
    fs::rename(checkpoints[i], temporary, error);
    if (!error) renamed.push_back(temporary);
  }
  remove_renamed(folder, renamed);
}

std::optional<FoundCheckpoint> find_checkpoint(const fs::path& wanted, std::vector<std::string>& skipped) {
  const fs::path place = normalized(wanted);
  const fs::path path = link_target(place);
  std::error_code error;
  const bool named = is_checkpoint_name(path.filename());
  require(fs::exists(path, error) || (named && path != place), Exit::data,
          "there is no {}; give --resume a checkpoint or a run's folder", printable(wanted.native()));
  if (named) {
    std::vector<fs::path> candidates = list_checkpoints(path.parent_path());
    std::erase_if(candidates,
                  [&](const fs::path& other) { return step_of(other.filename()) >= step_of(path.filename()); });
    candidates.insert(candidates.begin(), path);
    return first_good(candidates, skipped);
  }
  require(fs::is_directory(path, error), Exit::data,
          "{} is a file; give --resume a checkpoint or a run's folder, or --init-from a file of weights",
          printable(wanted.native()));
  if (fs::exists(path / kManifestFile, error)) return first_good({path}, skipped);
  const bool run = fs::is_directory(checkpoints_of(path), error);
  return first_good(list_checkpoints(run ? checkpoints_of(path) : path), skipped);
}

bool is_newest(const fs::path& checkpoint) {
  for (const fs::path& other : list_checkpoints(checkpoint.parent_path())) {
    if (other.filename() == checkpoint.filename()) break;
    if (std::holds_alternative<RunState>(state_or_reason(other))) return false;
  }
  return true;
}

void require_newest(const fs::path& checkpoint) {
  for (const fs::path& other : list_checkpoints(checkpoint.parent_path())) {
    if (other.filename() == checkpoint.filename()) return;
    require(std::holds_alternative<std::string>(state_or_reason(other)), Exit::output,
            "{} is newer than {}: resume into another --output-dir, or remove the newer checkpoint",
            printable(other.native()), printable(checkpoint.native()));
    std::error_code ignored;
    const fs::path aside = other.parent_path() / ("broken-" + other.filename().string());
    fs::remove_all(aside, ignored);
    fs::rename(other, aside, ignored);
  }
}

}  // namespace ddp
