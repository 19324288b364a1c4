// Places a model's activations and their gradients in one block of memory. The plan is a pure function of the graph.
#pragma once

#include "nn/arena.h"
#include "nn/network.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

// A stage writes one value. An input is the index of a stage, LayerSpec::kImage or LayerSpec::kNone.
struct PlannedStage {
  int64_t bytes = 0;
  bool view = false;  // the value is the value of `from`, in the same memory
  int from = LayerSpec::kImage, skip = LayerSpec::kNone;
  bool saves_input = false, saves_output = false;  // whether its backward reads them
  bool has_gradient = false;
  bool separates_skip = false;  // its backward writes the gradient of `skip` to memory of its own
};

struct MemoryPlan {
  int64_t bytes = 0;
  int64_t image = 0;                   // byte offset, as all offsets below
  std::vector<int64_t> value;          // one offset per stage
  std::vector<int64_t> from_gradient;  // per stage: where its backward writes the gradient of `from`; -1: nowhere
  std::vector<int64_t> skip_gradient;  // the same of `skip`; -1 too where it is that of the value
  // Per stage: the terms whose sum is the gradient of its value. All terms are complete before the backward of the
  // stage starts, and that backward may overwrite the first term.
  std::vector<std::vector<int64_t>> gradient;
};

// With S stages, stage i runs at time i, the loss at time S and the backward of stage i at time 2S-i.
//
// A value lives from its forward to the last forward or backward that reads it. A gradient term of a value lives from
// the backward that writes it (the loss, or a stage that reads the value) to the backward of the value's own stage. The
// gradient of a skip input is the gradient of the value that its reader writes, in the same memory, unless the reader
// separates them. The gradient of the last value takes its place in memory where no backward reads that value.
MemoryPlan plan_memory(int64_t image_bytes, std::span<const PlannedStage> stages);

// The bytes of the activations of a batch in inference, in f32 and without the padding of an op's own format: what a
// model takes at least, before one is made.
int64_t least_inference_bytes(const Network& network, int64_t batch);

}  // namespace ddp
