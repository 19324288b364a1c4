// Cuts the passes of a planned model into segments. A segment is a run of steps that need no sums over the whole batch
// from one another, so it can run slice by slice: all steps for a few samples, then all steps for the next ones. What
// one step writes, the next one then reads from the cache. The plan is a pure function of the graph.
//
// Between the segments lie the sums of batch norms. Of conv1, norm1, conv2, norm2, the forward pass has the segments
//   conv1, sum of norm1 | norm1, conv2, sum of norm2 | norm2
// and the backward pass
//   backward sum of norm2 | norm2, conv2, backward sum of norm1 | norm1, conv1
#pragma once

#include "nn/network.h"
#include "ops/conv2d.h"

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
  bool separates_skip = false;        // the gradient of `skip` has its own memory
  SliceSamples slices = {};           // the smallest ones that it takes, as Conv2d::slices()
  bool sums = false;                  // has sums over the whole batch, before its forward and its backward
  bool recomputes = false;            // the backward pass may compute its value again, from `from` alone
  bool reads_gradient_twice = false;  // its backward, for the gradients of weights and of `from`
};

struct SegmentStep {
  enum class Part { sum, forward, backward_sum, backward };
  int stage;
  Part part;
  bool operator==(const SegmentStep&) const = default;
};

struct Segment {
  bool sliced = false;            // false: one step, for the whole batch
  int64_t samples = 0;            // of a slice, if `sliced`
  std::vector<int> reduces = {};  // stages whose sums are complete before the first step, and which it needs
  std::vector<SegmentStep> steps = {};
};

// In the order of the passes. The stages with a backward are those that have a gradient.
struct Segments {
  std::vector<Segment> forward, backward;
};

// Without the samples of slices. The order of all `reduces` is that of the stages, and does not depend on `slices`;
// that of other steps may, and with it when a rank announces a gradient.
Segments plan_segments(std::span<const PlannedStage> stages);

// The stage that writes the memory of `stage`; LayerSpec::kImage or kNone for these.
int root_of(std::span<const PlannedStage> stages, int stage);

}  // namespace ddp
