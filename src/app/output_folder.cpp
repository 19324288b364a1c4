#include "app/output_folder.h"

#include "core/error.h"

#include <fmt/chrono.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

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

fs::path named_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, Exit::output, "cannot create the output folder {}: {}; choose another --output-dir", folder.string(),
          error.message());
  for (const char* name : {"config.toml", "metrics.jsonl", "summary.json", "model.safetensors"})
    require(!fs::exists(folder / name, error), Exit::output,
            "{} already holds a run ({}); choose another --output-dir, or remove it", folder.string(), name);
  return folder;
}

}  // namespace

void write_text(const fs::path& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path);
  file << text << std::flush;
  require(file.good(), Exit::output, "cannot write {}: {}; choose another --output-dir", path.string(),
          std::strerror(errno));
}

fs::path make_output_folder(const std::string& wanted, const std::string& config) {
  const fs::path folder = wanted.empty() ? fresh_folder() : named_folder(wanted);
  write_text(folder / "config.toml", config);
  return folder;
}

}  // namespace ddp
