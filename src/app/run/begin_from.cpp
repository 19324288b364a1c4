#include "app/run/begin_from.h"

#include "app/inputs/inherited_input.h"
#include "app/inputs/load_data.h"
#include "app/inputs/vocabulary_of_run.h"
#include "checkpoint/find_weights.h"
#include "checkpoint/initial_state.h"
#include "checkpoint/safetensors.h"
#include "core/printable.h"
#include "health/run_on_all_ranks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace ddp {
namespace {

// The options to take over, a line for each, and what the user should know about them.
std::string read_inherited(const Options& given, const std::filesystem::path& weights, const Log& log) {
  const std::string file = printable(weights.native());
  const auto info = model_info_in(read_safetensors_metadata(weights), file);
  const bool pictures = reads_pictures(given.data);
  if (!info) {
    if (pictures && !given.given.contains("--mean"))
      log.info(
          "{}: no metadata say how its pixels were normalized; for weights of torchvision or timm, give --mean "
          "imagenet",
          file);
    return "";
  }
  if (info->reads_tokens()) return "";
  std::vector<std::string> shown;
  std::string lines;
  for (const auto& [name, value] : inherited_input(*info, pictures, given.given, file)) {
    shown.push_back(name + " " + value);
    lines += name + "\n" + value + "\n";
  }
  if (!shown.empty()) log.info("as in the metadata of {}: {}", file, fmt::join(shown, ", "));
  return lines;
}

}  // namespace

Options with_inherited_input(const Options& given, MpiSession& session, const Log& log) {
  if (std::ranges::count(session.gather(given.network.init_from), "") > 0) return given;
  std::string weights = given.network.init_from;
  const std::string inherited = session.gather(run_on_all_ranks(session, [&] {
    if (session.rank() != 0) return std::string();
    weights = find_weights(weights, log).native();
    return read_inherited(given, weights, log);
  }))[0];
  NamedValues values = given.given;
  std::istringstream stream(inherited);
  for (std::string name, value; std::getline(stream, name) && std::getline(stream, value);) values[name] = value;
  Options options = run_on_all_ranks(session, [&] { return options_of(values, {}); });
  options.network.init_from = weights;  // the file that was found, on rank 0
  return options;
}

ModelState initial_weights_from_file(const Job& job, const Replica& replica) {
  const NetworkConfig& config = job.options.network;
  const std::filesystem::path weights = config.init_from;
  std::optional<NewHead> new_head;
  if (config.new_head) new_head = NewHead{config.init, job.options.seed};
  ModelState state =
      load_initial_state(weights, replica.parameters, replica.batch_norms, new_head,
                         {.network = {config.source.name, job.network.input(), job.data.data.train->classes()},
                          .derived = derived_tensors(job.network),
                          .note = [&](const std::string& line) { job.log.info("{}", line); }});
  if (new_head) return state;
  const std::string file = printable(weights.native());
  if (const auto info = model_info_in(read_safetensors_metadata(weights), file))
    for (const std::string& text : {compare_classes(*info, job.data.class_names, file),
                                    compare_vocabularies(*info, vocabulary_hash(job.data), file)})
      if (!text.empty()) job.log.warn("{}", text);
  return state;
}

}  // namespace ddp
