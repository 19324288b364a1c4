// A network planned for a device, for training or, with less memory, for inference only. The model owns its ops and the
// memory of activations and their gradients, unless it shares that of another model. The caller owns the flat buffers
// of weights, gradients and batch-norm sums.
#pragma once

#include "device/buffer.h"
#include "device/device.h"
#include "nn/layer.h"
#include "nn/layer_work.h"
#include "nn/memory_plan.h"
#include "nn/network.h"
#include "nn/parameters.h"
#include "ops/ops.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

class Model {
 public:
  // Later calls run batches of these sizes, or empty ones. `parameters` and `batch_norms` belong to `network`.
  // The device, the ops and the memory outlive the model. Throws Error(Exit::model) if the network does not end in one
  // value per class, or in one for each class and token.
  Model(const Network& network, std::span<const Parameter> parameters, std::span<const BatchNormState> batch_norms,
        std::span<const int64_t> batch_sizes, Device& device, Ops& ops, const ModelMemory& memory,
        const ModelConfig& config);

  // Plans the model again, for batches of these sizes. Their largest is that of the constructor's, which gets the other
  // arguments too. The weights stay; the model makes its ops again, with their memory, and a larger arena if its own is
  // too small. Models that share this arena are planned after it. Formats stay, because they follow from the largest
  // size. No work of this model is in flight, and none of its graphs is launched again.
  void plan(const Network& network, std::span<const Parameter> parameters, std::span<const BatchNormState> batch_norms,
            std::span<const int64_t> batch_sizes);

  // Call this after each change of the weights, before the next pass. `rounded`: bf16_weights() has changed with them.
  // `trained_only`: frozen weights are as before.
  void bind(bool rounded = false, bool trained_only = false);

  // The flat buffer rounded to bf16, for backends whose ops read that (Ops::reads_bf16_weights()), else null. bind()
  // writes it.
  uint16_t* bf16_weights() const { return bf16_weights_.as<uint16_t>(); }

  // How the convolutions' weight gradients of the last pass become f32, if they are in bf16_gradients(): those of a
  // pass with gradient_ready, on backends that read weights in bf16. GradientScan takes them. nullopt: all gradients
  // are in f32.
  std::optional<Gradient> left_in_bf16() const { return left_in_bf16_; }
  const uint16_t* bf16_gradients() const { return bf16_gradients_.as<uint16_t>(); }

  // Forward and backward pass. The loss is the sum over samples, divided by batch.plan.step_size. The first micro-batch
  // of a step overwrites gradients, batch-norm sums and loss_stats (ops/ops.h); later ones add to them. Calls
  // `gradient_ready` for each parameter when its gradient is final. Only the last micro-batch of a step has one.
  //
  // A rank with an empty batch makes the same collectives and calls in the same order. In the first micro-batch it
  // zeroes the batch-norm sums, but neither gradients nor loss_stats.
  void forward_backward(const DeviceBatch& batch, const GradientReady& gradient_ready = {});

  // Forward pass only, as in training, with the images of epoch 0. Overwrites the batch-norm sums or adds to them.
  // Collective: ranks with an empty batch call it too.
  void precise_bn(const DeviceBatch& batch, Gradient mode);

  // Forward pass only, without augmentation; batch norms normalise by `running_stats`. Overwrites loss_stats, without
  // label smoothing. `ranked`, if not null, gets an entry for each sample. The batch must not be empty.
  void evaluate(const DeviceBatch& batch, const float* running_stats, float* loss_stats, RankedClass* ranked = nullptr);

  // The forward pass of evaluate(). Returns the logits, 1 x 1 x classes or T x 1 x classes, in the model's own format
  // and type. They are valid until the next pass. Needs no labels.
  Tensor logits(const DeviceBatch& batch, const float* running_stats);

  // What a pass over `samples` samples runs, in forward order. Views run nothing, and have no entry.
  std::vector<PlannedLayer> planned_layers(int64_t samples) const;

  // Bytes of activations and their gradients that a pass over the largest batch moves (MemoryPlan::traffic), and those
  // that it moved if it ran whole batches.
  int64_t traffic() const { return plan_.traffic; }
  int64_t whole_traffic() const { return whole_traffic_; }

  ImageShape input() const { return input_image_; }
  const Buffer& arena() const { return own_arena_; }  // for activations and their gradients; empty: another model's

 private:
  struct Stage {
    std::unique_ptr<Layer> layer;                           // null for a view
    std::string name;                                       // such as "3 conv2d"
    int index = -1;                                         // in the network; -1: a copy to another format
    int from = LayerSpec::kImage, skip = LayerSpec::kNone;  // indices of stages
    ImageShape image;                                       // shape of the output
    Format format;                                          // format of the output
    bool has_gradient = false;                              // whether the output depends on trained parameters
  };
  struct Slice {
    int64_t first, samples;
  };

  void plan_memory(int64_t largest_batch);
  int64_t bytes(int stage, int64_t n) const;  // of a tensor with the shape of the stage's output
  Tensor at(int stage, const Place& place, const Slice& slice) const;  // shaped like the stage's output
  Tensor value(int stage, int64_t n) const;
  LayerValues values(int stage, const Slice& slice, bool in_backward) const;
  LayerGradients gradients(int stage, const Slice& slice, SegmentStep::Part part) const;
  Augmentation augmentation_in(const Pass& pass) const;
  void run(const Segment& segment, const Pass& pass, bool in_backward);
  void run(const SegmentStep& step, const Slice& slice, const Pass& pass, bool in_backward);
  void forward(const Pass& pass);

  Device& device_;
  Ops& ops_;
  const ModelMemory memory_;
  const ModelConfig config_;
  ImageShape input_image_;  // shape of the images in the data
  ImageShape read_image_;   // shape of their top left part, which the network reads
  bool reads_tokens_;       // the first layer reads the batch itself
  Format input_format_;
  std::vector<Stage> stages_;  // layers and views, in forward order
  MemoryPlan plan_;            // offsets are those in the arena
  int64_t whole_traffic_ = 0;
  int last_ = LayerSpec::kImage;  // the stage whose output is the logits
  int64_t parameters_;            // elements of the flat buffer
  Buffer bf16_weights_, bf16_gradients_;
  std::optional<Gradient> left_in_bf16_;
  Buffer own_arena_;
  char* arena_ = nullptr;
};

}  // namespace ddp
