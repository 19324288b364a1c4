#include "app/make_network.h"

#include "core/error.h"
#include "nn/models.h"

namespace ddp {

Network make_network(const Options& o, const Dataset& data) {
  Network network = make_model(o.network.name, data.image_shape(), data.classes());
  const bool sync = o.replica.sync_bn, asks_for_norms = sync || o.network.recompute_bn;
  require(!asks_for_norms || !batch_norm_states_of(network).empty(), Exit::usage, "--{}: {} has no batch norms",
          sync ? "sync-bn" : "bn-stats", o.network.name);
  return network;
}

}  // namespace ddp
