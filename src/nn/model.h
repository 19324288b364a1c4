// A network planned for a device: its ops, and the memory of its activations and their gradients. The flat buffers of
// weights and gradients belong to the caller and are laid out as parameters_of() says.
#pragma once

#include "device/buffer.h"
#include "device/device.h"
#include "nn/layer.h"
#include "nn/network.h"
#include "nn/parameters.h"
#include "ops/ops.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ddp {

class Model {
 public:
  // Only the batch sizes given here can be run. `weights` and `gradients` outlive the model.
  Model(const Network& network, std::span<const int64_t> batch_sizes, Device& device, Ops& ops, const float* weights,
        float* gradients);

  // To be called whenever the weights have changed, before they are used again.
  void bind();

  // One pass forward and back. Seeds the loss gradient of every sample with `sample_weight` (one over the size of the
  // global batch), overwrites all gradients, and announces each parameter when its gradient is final. stats[0] and
  // stats[1], on the device, become the sum of losses and the number of correct predictions (ops/ops.h).
  void forward_backward(const Samples& samples, float sample_weight, float* stats, const Announce& announce);

  // Forward only; the same stats.
  void evaluate(const Samples& samples, float* stats);

  ImageShape input() const { return input_image_; }
  int64_t activation_bytes() const { return static_cast<int64_t>(arena_.bytes()); }

 private:
  struct Stage {
    std::unique_ptr<Layer> layer;  // null for a view
    std::string name;              // "3 conv2d"
    ImageShape image;              // of the output
    Format format;
    bool has_gradient = false;         // the first layer with weights and all after it
    int64_t output = 0, gradient = 0;  // byte offsets in the arena
  };

  Tensor value(int stage, int64_t n) const;     // stage -1 is the network's input
  Tensor gradient(int stage, int64_t n) const;  // without data where none is wanted
  void forward(const Samples& samples);
  void plan_memory(int64_t largest_batch);

  Device& device_;
  Ops& ops_;
  const float* weights_;
  float* gradients_;
  ImageShape input_image_;  // of the samples
  ImageShape read_image_;   // what the network reads of it, its top left
  Format input_format_;
  int64_t input_offset_ = 0;
  std::vector<Stage> stages_;  // layers and views, in forward order
  Buffer arena_;
};

}  // namespace ddp
