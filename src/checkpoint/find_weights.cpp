#include "checkpoint/find_weights.h"

#include "checkpoint/folder.h"
#include "core/error.h"
#include "core/printable.h"

#include <string>
#include <system_error>
#include <vector>

namespace ddp {

namespace fs = std::filesystem;

fs::path find_weights(const fs::path& given, const Log& log) {
  std::error_code ignored;
  if (!fs::is_directory(given, ignored)) return given;
  const char* const name = "model.safetensors";
  if (fs::exists(given / name, ignored)) return given / name;
  std::vector<std::string> skipped;
  const auto found = find_checkpoint(given, skipped);
  for (const std::string& reason : skipped) log.warn("{}", reason);
  require(found.has_value(), Exit::data,
          "{} has neither {} nor a checkpoint; give a file of weights, a checkpoint or a "
          "run's folder",
          printable(given.native()), name);
  return found->path / name;
}

}  // namespace ddp
