#include "train/observers/rank_memory.h"

#include <algorithm>

namespace ddp {

RankMemory memory_of(const Replica& replica, std::initializer_list<const Model*> evaluation_models) {
  const auto bytes = [](int64_t floats) { return 4 * static_cast<double>(floats); };
  const auto half = [&](const void* copy, int64_t count) { return copy ? bytes(count) / 2 : 0; };  // in bf16
  const Model& model = replica.model;
  const int64_t padded = replica.plan.padded, flat = std::max(padded, replica.weights_count);
  RankMemory memory;
  memory.weights = bytes(flat) * (replica.average ? 2 : 1) + half(model.bf16_weights(), flat);
  size_t arenas = model.arena().bytes();
  for (const Model* const other : evaluation_models) {
    if (!other) continue;
    memory.weights += half(other->bf16_weights(), flat);
    arenas += other->arena().bytes();
  }
  memory.gradients = bytes(replica.plan.total) + half(replica.comm_buffer.data(), padded) +
                     half(model.bf16_gradients(), padded) +
                     2 * static_cast<double>(replica.residual_buffers[0].bytes());
  memory.optimizer = static_cast<double>(replica.optimizer.state_bytes());
  memory.activations = static_cast<double>(arenas);
  return memory;
}

}  // namespace ddp
