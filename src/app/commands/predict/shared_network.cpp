#include "app/commands/predict/shared_network.h"

#include "checkpoint/find_weights.h"
#include "comm/broadcast_host.h"
#include "ddp/hash.h"
#include "ddp/replica_check.h"
#include "health/run_on_all_ranks.h"

#include <nlohmann/json.hpp>

#include <utility>

namespace ddp {

SharedNetwork share_trained_network(const std::string& given, bool average, const DescribedNetwork& described,
                                    MpiSession& session, Communicator& world, const Log& log,
                                    const std::function<void(const std::string&)>& note) {
  std::string weights, metadata;
  run_on_all_ranks(session, [&] {
    if (session.rank() != 0) return;
    weights = find_weights(given, log, average).string();
    metadata = nlohmann::json(model_info_of(described, weights).to_metadata()).dump();
  });
  broadcast_host(world, weights);
  broadcast_host(world, metadata);
  const ModelInfo info = run_on_all_ranks(
      session, [&] { return *model_info_in(nlohmann::json::parse(metadata).get<Metadata>(), weights); });
  TrainedNetwork trained = run_on_all_ranks(session, [&] {
    if (session.rank() != 0) return network_without_weights(info);
    return read_trained_network(info, weights, note);
  });
  broadcast_host(world, trained.state.weights);
  broadcast_host(world, trained.state.statistics);
  return {std::move(weights), info, std::move(trained)};
}

void require_same_arguments(std::span<const std::string> arguments, Communicator& world) {
  Hash hash;
  for (const std::string& argument : arguments) {
    for (const char c : argument) hash.add(static_cast<unsigned char>(c));
    hash.add(256);  // the end of an argument
  }
  check_same_on_all_ranks(hash.value(), "command line", world);
}

}  // namespace ddp
