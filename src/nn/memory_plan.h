// Where a model's activations and their gradients lie in one block of memory: a pure function of its graph.
#pragma once

#include "nn/arena.h"
#include "nn/network.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

// A stage writes one value. Its inputs are stages, or in their place LayerSpec::kImage or kNone.
struct PlannedStage {
  int64_t bytes = 0;
  bool view = false;  // its value is that of `from`, in the same memory
  int from = LayerSpec::kImage, skip = LayerSpec::kNone;
  bool saves_input = false, saves_output = false;  // in its backward
  bool has_gradient = false;
};

struct MemoryPlan {
  int64_t bytes = 0;
  int64_t image = 0;                   // offsets in bytes, here and below
  std::vector<int64_t> value;          // by stage
  std::vector<int64_t> from_gradient;  // by stage: where it writes the gradient of `from`; -1: nowhere
  // By stage: the parts that the gradient of its value is the sum of, ready when its turn comes. The first may be
  // overwritten by its backward.
  std::vector<std::vector<int64_t>> gradient;
};

// A step runs the stages 0..S-1 at times 0..S-1, the loss at S, and the backward of stage i at 2S-i. A value lives from
// its forward to the last backward that reads it; a part of its gradient from the backward that writes it (of a stage
// that reads the value, or the loss) to its own stage's. The gradient of a skip input is that of its reader's own
// value, in the same memory.
MemoryPlan plan_memory(int64_t image_bytes, std::span<const PlannedStage> stages);

}  // namespace ddp
