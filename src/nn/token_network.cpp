#include "nn/token_network.h"

#include <algorithm>

namespace ddp {

bool is_causal(const Network& network) {
  using enum LayerSpec::Kind;
  return network.reads_tokens() && std::ranges::all_of(network.layers(), [](const LayerSpec& l) {
           switch (l.kind) {
             case linear:
             case layer_norm:
             case activation:
             case dropout:
             case stochastic_depth:
             case add:
             case concat:
             case layer_scale:
             case embedding:
             case position_embedding: return true;
             case attention: return l.causal;
             default: return false;
           }
         });
}

}  // namespace ddp
