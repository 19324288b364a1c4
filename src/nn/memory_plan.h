// Places a model's activations and their gradients in one block of memory. The plan is a pure function of the graph.
#pragma once

#include "nn/arena.h"
#include "nn/network.h"
#include "nn/segments.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

// The batch that the bytes of stages are of, and how many bytes the tensors of a slice may have together. Samples of a
// tensor are contiguous and have the same number of bytes.
struct SliceBudget {
  int64_t batch = 1, bytes = 0;
};

// Where a tensor lies.
struct Place {
  int64_t offset = -1;    // in bytes; -1: nowhere
  bool of_slice = false;  // the memory has one slice at a time; else the whole batch
  bool operator==(const Place&) const = default;
};

struct MemoryPlan {
  int64_t bytes = 0;
  Segments segments = {};  // forward steps among those of the backward pass compute a value again
  Place image = {};
  std::vector<Place> value;          // by stage, as all below
  std::vector<Place> recomputed;     // its value in the backward pass: `value`, or where that pass computes it again
  std::vector<Place> from_gradient;  // where its backward writes the gradient of `from`
  std::vector<Place> skip_gradient;  // the same of `skip`; nowhere too where it is that of the value
  // The terms whose sum is the gradient of its value. All terms are complete before the backward of the stage starts,
  // and that backward may overwrite the first term.
  std::vector<std::vector<Place>> gradient;
  // Bytes of tensors that the two passes over the batch read and write: each tensor once in each step that touches it.
  // Where a slice fits the budget: once in each segment, and not at all if the tensor lives in one slice at a time.
  int64_t traffic = 0;
};

// Time is counted in segments: those of the forward pass, the loss, those of the backward pass. Tensors that are alive
// in the same segment do not share memory.
//
// A value lives from its forward to the last forward or backward that reads it. A gradient term of a value lives from
// the backward that writes it (the loss, or a stage that reads the value) to the backward of the value's own stage. The
// gradient of a skip input is the gradient of the value that its reader writes, in the same memory, unless the reader
// separates them. The gradient of the last value takes its place in memory where no backward reads that value. What
// lives in one sliced segment only has the memory of a slice.
MemoryPlan plan_memory(int64_t image_bytes, std::span<const PlannedStage> stages, const SliceBudget& slices = {});

// The bytes of the activations of a batch in inference, in f32 and without the padding of an op's own format: what a
// model takes at least, before one is made.
int64_t least_inference_bytes(const Network& network, int64_t batch);

}  // namespace ddp
