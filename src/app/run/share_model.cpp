#include "app/run/share_model.h"

#include "app/inputs/model_info.h"
#include "app/inputs/model_source.h"
#include "app/inputs/token_sizes.h"
#include "app/options/resume.h"
#include "checkpoint/find_weights.h"
#include "core/log.h"
#include "core/printable.h"
#include "health/run_on_all_ranks.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <system_error>

namespace ddp {
namespace {

namespace fs = std::filesystem;

// `read` gives the source, on rank 0.
void share_source(NetworkConfig& network, MpiSession& session, const std::function<ModelFile()>& read) {
  network.source = run_on_all_ranks(session, [&] { return session.rank() == 0 ? read() : ModelFile(); });
  network.source.name = session.gather(network.source.name)[0];
  network.source.text = session.gather(network.source.text)[0];
  network.source.built_in = !is_model_path(network.model);
}

ModelFile source_in(const fs::path& checkpoint, const std::string& model) {
  const fs::path weights = find_weights(checkpoint, Log(0));
  const std::string file = printable(weights.native());
  const auto info = model_info_in(read_safetensors_metadata(weights), file);
  require(info && !info->graph.empty(), Exit::data, "{}: its metadata have no graph of the network {}", file,
          printable(model));
  return {.name = info->model, .text = info->graph};
}

}  // namespace

void share_model(NetworkConfig& network, MpiSession& session) {
  if (!network.source.name.empty()) return;
  share_source(network, session, [&] { return read_model_source(network.model); });
}

void share_resumed_model(Options& options, const RunState& saved, const fs::path& checkpoint, MpiSession& session) {
  const std::string& model = options.network.model;
  if (!is_model_path(model)) return share_model(options.network, session);
  const auto recorded = saved.options.find(kModelOption);
  const bool same_path = recorded != saved.options.end() && recorded->second == model;
  share_source(options.network, session, [&] {
    std::error_code error;
    const bool missing = same_path && !fs::exists(model, error) && !error;
    return options.given.contains(kModelOption) && !missing ? read_model_source(model) : source_in(checkpoint, model);
  });
}

int64_t default_sequence_length(const NetworkConfig& network, int64_t vocabulary_size) {
  try {
    if (!reads_tokens(network.source, network.model)) return kSequenceLength;
    const TokenInput input = complete({.length = 0, .vocabulary = vocabulary_size}, network.source, network.model);
    return std::min(input.length, kSequenceLength);
  } catch (const Error&) {
    return kSequenceLength;
  }
}

}  // namespace ddp
