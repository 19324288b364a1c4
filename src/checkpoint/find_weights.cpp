#include "checkpoint/find_weights.h"

#include "checkpoint/folder.h"
#include "checkpoint/names.h"
#include "core/error.h"
#include "core/printable.h"

#include <string>
#include <system_error>
#include <vector>

namespace ddp {

namespace fs = std::filesystem;

fs::path find_weights(const fs::path& given, const Log& log, bool average) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(given, ignored);
  require(is_folder || !average, Exit::data, "--ema needs a run's folder or a checkpoint, and {} is none",
          printable(given.native()));
  if (!is_folder) return given;
  const char* const name = average ? kAverageFile : "model.safetensors";
  if (fs::exists(given / name, ignored)) return given / name;
  std::vector<std::string> skipped;
  const auto found = find_checkpoint(given, skipped);
  for (const std::string& reason : skipped) log.warn("{}", reason);
  require(found.has_value(), Exit::data,
          "{} has neither {} nor a checkpoint; give a file of weights, a checkpoint or a "
          "run's folder",
          printable(given.native()), name);
  require(!average || fs::exists(found->path / name, ignored), Exit::data,
          "{} has no {}: its run had no --model-ema; leave out --ema", printable(found->path.native()), name);
  return found->path / name;
}

}  // namespace ddp
