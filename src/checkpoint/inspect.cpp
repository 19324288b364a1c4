#include "checkpoint/inspect.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/printable.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

namespace ddp {
namespace fs = std::filesystem;

namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr const char* kUsage = "usage: ddp_train inspect CHECKPOINT | RUN_FOLDER | FILE.safetensors";

std::string summary(const NamedTensor& tensor) {
  if (tensor.integer) return fmt::format("{:>38}", *tensor.integer);
  float low = std::numeric_limits<float>::infinity(), high = -low;
  double squares = 0;
  int64_t not_finite = 0;
  for (const float value : tensor.values) {
    if (!std::isfinite(value)) {
      ++not_finite;
      continue;
    }
    low = std::min(low, value);
    high = std::max(high, value);
    squares += double{value} * value;
  }
  if (low > high) low = high = std::numeric_limits<float>::quiet_NaN();
  std::string text = fmt::format("{:>12.5g} {:>12.5g} {:>12.5g}", low, high, std::sqrt(squares));
  if (not_finite > 0) text += fmt::format("  {} not finite", not_finite);
  return text;
}

void print_tensors(Out out, const fs::path& path) {
  const auto tensors = read_safetensors(path);
  const Metadata metadata = read_safetensors_metadata(path);
  size_t width = 6;
  for (const auto& [name, tensor] : tensors) width = std::max(width, shortened(name).size());
  fmt::format_to(out, "\n{}: {} tensors, {} bytes\n", printable(path.filename().native()), tensors.size(),
                 fs::file_size(path));
  for (const auto& [name, value] : metadata) fmt::format_to(out, "  {}: {}\n", shortened(name), shortened(value));
  if (tensors.empty()) return;
  fmt::format_to(out, "  {:<{}}  dtype  {:<20} {:>12} {:>12} {:>12}\n", "tensor", width, "shape", "min", "max",
                 "L2 norm");
  for (const auto& [name, tensor] : tensors)
    fmt::format_to(out, "  {:<{}}  {:<5}  {:<20} {}\n", shortened(name), width, tensor.integer ? "I64" : "F32",
                   fmt::format("[{}]", fmt::join(tensor.shape, ", ")), summary(tensor));
}

void print_map(Out out, const char* title, const std::map<std::string, std::string>& map) {
  if (map.empty()) return;
  fmt::format_to(out, "\n{}\n", title);
  for (const auto& [name, value] : map) fmt::format_to(out, "  {} = {}\n", printable(name), printable(value));
}

void print_state(Out out, const fs::path& checkpoint) {
  const RunState state = read_run_state(checkpoint);
  const auto accuracy = [](double value) { return value < 0 ? "none yet" : fmt::format("{:.4f}", value); };
  fmt::format_to(out, "{}: complete, checksums match\n", printable(checkpoint.native()));
  fmt::format_to(out, "  step {}, {} samples into epoch {}{}\n", state.step, state.cursor, state.epoch,
                 state.evaluation_due ? ", evaluation of the last epoch due" : "");
  fmt::format_to(out, "  {} samples in {:.1f} s of training, {} steps skipped\n", state.samples, state.train_seconds,
                 state.skipped);
  const auto best = [&](double best_accuracy, const std::optional<double>& best_loss) {
    return best_loss ? fmt::format("loss {:.4f}", *best_loss) : accuracy(best_accuracy);
  };
  fmt::format_to(out, "  accuracy {}, best {}{}\n", accuracy(state.accuracy),
                 best(state.best_accuracy, state.best_loss),
                 state.best_epoch > 0 ? fmt::format(" after epoch {}", state.best_epoch) : "");
  if (state.bn_stats_samples > 0)
    fmt::format_to(out,
                   "  batch-norm statistics: recomputed from {} training samples for the evaluation of this step\n",
                   state.bn_stats_samples);
  if (state.plateau)
    fmt::format_to(out, "  plateau: the rate is multiplied by {:g}; best {:g}, {} evaluations since, cooldown of {}\n",
                   state.plateau->factor, state.plateau->best, state.plateau->bad, state.plateau->cooldown);
  if (state.early_stop)
    fmt::format_to(out, "  early stop: best {}{}, {} evaluations since\n",
                   state.early_stop->best_loss ? "" : "accuracy ",
                   best(state.early_stop->best, state.early_stop->best_loss), state.early_stop->bad);
  if (state.balance && !state.balance->shares.empty())
    fmt::format_to(out, "  shards by measured speed: {} samples of a micro-batch\n",
                   fmt::join(state.balance->shares, ", "));
  print_map(out, "affects_results: a resumed run must have the same values", state.affects_results);
  print_map(out, "affects_rounding: a resumed run with other values differs by rounding", state.affects_rounding);
  print_map(out, "autotune: the algorithms that timings chose", state.autotune);
}

bool holds_checkpoints(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(checkpoints_of(path), error) || !list_checkpoints(path).empty();
}

fs::path newest_good(Out out, const fs::path& folder) {
  std::vector<std::string> skipped;
  const auto found = find_checkpoint(folder, skipped);
  require(found.has_value(), Exit::data, "{} has no checkpoint", printable(folder.native()));
  for (const std::string& reason : skipped) fmt::format_to(out, "skipped: {}\n", reason);
  return found->path;
}

}  // namespace

std::string inspect(std::span<const std::string> arguments) {
  require(arguments.size() == 1 && !arguments[0].empty() && arguments[0][0] != '-', Exit::usage, "{}", kUsage);
  fs::path path = arguments[0];
  std::string text;
  const Out out(text);
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    print_tensors(out, path);
    return text.substr(1);
  }
  if (holds_checkpoints(path)) path = newest_good(out, path);
  print_state(out, path);
  for (const char* name : {"model.safetensors", kAverageFile, "optimizer.safetensors"})
    if (name != kAverageFile || fs::exists(path / name, error)) print_tensors(out, path / name);
  return text;
}

}  // namespace ddp
