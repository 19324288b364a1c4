#include "app/make_network.h"

#include "core/error.h"
#include "nn/models.h"

namespace ddp {

Network make_network(const NetworkConfig& config, bool sync_bn, const Dataset& data) {
  Network network = make_model(config.name, data.image_shape(), data.classes());
  const bool asks_for_norms = sync_bn || config.recompute_bn;
  require(!asks_for_norms || !batch_norm_states_of(network).empty(), Exit::usage, "--{}: {} has no batch norms",
          sync_bn ? "sync-bn" : "bn-stats", config.name);
  return network;
}

}  // namespace ddp
