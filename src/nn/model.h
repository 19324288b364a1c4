// A network planned for a device: its ops, and the memory of its activations and their gradients. The flat buffers of
// weights, gradients and statistics belong to the caller.
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
  // Only the batch sizes given here can be run, and the empty one. `parameters` and `norms` are the network's.
  Model(const Network& network, std::span<const Parameter> parameters, std::span<const BatchNormState> batch_norms,
        std::span<const int64_t> batch_sizes, Device& device, Ops& ops, const ModelMemory& memory,
        const ModelConfig& config);

  // To be called whenever the weights have changed, before they are used again.
  void bind();

  // One pass forward and back (pass.kind train). Seeds the loss gradient of every sample with `sample_weight` (one over
  // the size of the global batch), writes or adds to all gradients and statistics, and announces each parameter when
  // its gradient is final. stats[0] and stats[1], on the device, are the sum of losses and the number of correct
  // predictions (ops/ops.h), by the mode of the pass too. Of an empty shard: the collectives and announcements of the
  // others, in their order; with Gradient::overwrite it zeroes the statistics, but neither gradients nor stats.
  void forward_backward(const Pass& pass, float sample_weight, float* stats);

  // Forward only (pass.kind precise_bn): writes or adds to the statistics. Every rank calls it, with an empty shard
  // too.
  void precise_bn(const Pass& pass);

  // Forward only (pass.kind evaluate): stats as above, overwritten, of the loss without label smoothing.
  void evaluate(const Pass& pass, float* stats);

  ImageShape input() const { return input_image_; }
  int64_t activation_bytes() const { return static_cast<int64_t>(arena_.bytes()); }

 private:
  struct Stage {
    std::unique_ptr<Layer> layer;                           // null for a view
    std::string name;                                       // "3 conv2d"
    int from = LayerSpec::kImage, skip = LayerSpec::kNone;  // stages
    ImageShape image;                                       // of the output
    Format format;
    bool has_gradient = false;           // whether its value depends on parameters
    int64_t output = 0;                  // byte offsets in the arena
    int64_t from_gradient = -1;          // where it writes the gradient of its input
    std::vector<int64_t> gradient = {};  // the parts of the gradient of its output
  };

  void plan_memory(int64_t largest_batch);
  Tensor at(int stage, int64_t offset, int64_t n) const;  // as the value of the stage, at an offset of the arena
  Tensor value(int stage, int64_t n) const;
  LayerValues values(const Stage& stage, int index, int64_t n) const;
  void forward(const Pass& pass);
  void backward(int index, const Pass& pass);

  Device& device_;
  Ops& ops_;
  const ModelMemory memory_;
  const ModelConfig config_;
  ImageShape input_image_;  // of the samples
  ImageShape read_image_;   // what the network reads of it, its top left
  Format input_format_;
  int64_t input_offset_ = 0;
  std::vector<Stage> stages_;     // layers and views, in forward order
  int last_ = LayerSpec::kImage;  // the stage whose value is the logits, and whose gradient the loss writes
  Buffer arena_;
};

}  // namespace ddp
