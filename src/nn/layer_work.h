// What the passes of a planned layer compute and move.
#pragma once

#include "core/shape.h"
#include "nn/network.h"

#include <cstdint>

namespace ddp {

// A layer of a planned model, or a copy to another format, with the bytes of its tensors for a batch, in the formats
// and types that they have in memory.
struct PlannedLayer {
  const char* range = "";                 // name of its range on the device; valid until the model is planned again
  int index = -1;                         // in the network; -1: a copy to another format
  ImageShape output = {};                 // without what no later layer reads (Network::trimmed())
  int64_t x = 0, skip = 0, y = 0;         // inputs and output; skip is 0 without a second input
  int64_t dy = 0;                         // of all terms whose sum is the gradient of y; 0: no backward pass
  int64_t dx = 0, dskip = 0;              // of the gradients that the backward pass writes; 0: none
  bool saves_x = false, saves_y = false;  // whether the backward pass reads them
};

// Bytes of the parameters that a pass reads, and of the gradients of the trained ones.
struct ParameterBytes {
  int64_t weights = 0, gradients = 0;
};

// Floating-point operations by the rule of forward_flops(), whatever the algorithm, and the bytes that have to move at
// least: each tensor once. No bytes: there is no such pass.
struct PassWork {
  double flops = 0, bytes = 0;
};

struct LayerWork {
  PassWork forward = {}, weight_gradient = {}, input_gradient = {};
};

// `apart`: the layer computes its weight gradient, announces it, then computes the gradient of its input. Else its
// whole backward pass is `input_gradient`.
LayerWork layer_work(const LayerSpec& spec, const PlannedLayer& planned, const ParameterBytes& parameters, bool apart,
                     int64_t samples);

// Of a copy to another format.
LayerWork copy_work(const PlannedLayer& planned);

}  // namespace ddp
