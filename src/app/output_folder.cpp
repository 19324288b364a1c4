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

fs::path fresh_folder() {
  const std::time_t now = std::time(nullptr);
  const std::string base = fmt::format("runs/{:%Y-%m-%d_%H-%M-%S}", fmt::localtime(now));
  fs::path folder = base;
  for (int i = 2; fs::exists(folder); ++i) folder = fmt::format("{}_{}", base, i);
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
  const fs::path folder = wanted.empty() ? fresh_folder() : fs::path(wanted);
  for (const char* name : {"config.toml", "metrics.jsonl", "summary.json"})
    require(!fs::exists(folder / name), Exit::output,
            "{} already holds a run ({}); choose another --output-dir, or remove it", folder.string(), name);
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, Exit::output, "cannot create the output folder {}: {}; choose another --output-dir", folder.string(),
          error.message());
  write_text(folder / "config.toml", config);
  return folder;
}

}  // namespace ddp
