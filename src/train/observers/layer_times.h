// Measures the layers of a model, in passes between steps.
#pragma once

#include "core/dtype.h"
#include "core/shape.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "nn/layer_work.h"
#include "train/step/replica.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddp {

struct PassTime {
  double ms = 0;  // median of the passes by the device's clock, which may stand still
  PassWork work = {};
};

// What runs in one range of the device. Without a `weight_gradient`, `input_gradient` is the whole backward pass.
struct LayerTime {
  std::string name;  // of the layer
  std::string what;  // the layer and what is fused into it, such as "conv2d 20, 3 x 3 + relu"
  std::string kind;  // such as "convolution"
  ImageShape output;
  PassTime forward = {}, weight_gradient = {}, input_gradient = {};
};

struct LayerTimes {
  std::string network;
  int64_t samples = 0;  // of this rank, in a pass
  int ranks = 1;
  int passes = 0;  // that count
  DType activations = DType::f32;
  double pass_ms = 0;                  // median of whole passes
  std::vector<LayerTime> layers = {};  // in forward order: the input transform of images, the layers, the loss
};

// Of a training of `network`, which is the replica's, on `data`, whose samples are not read. Times and work are those
// of this rank, while all ranks compute; the table of a run has rank 0's. Ranks may have different rows, because other
// processors may need other copies. One pass does not count; then up to `passes` in 2 s, at least one. Overwrites the
// gradients, which each step does too, and leaves the training's state unchanged. Collective.
LayerTimes measure_layer_times(Replica& replica, const Network& network, const Dataset& data,
                               const DistributedSampler& sampler, int passes = 100);

}  // namespace ddp
