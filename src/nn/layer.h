// One layer of a planned model. It connects an op to tensors and parameters. It owns the op, but neither the tensors
// nor the parameters.
#pragma once

#include "device/buffer.h"
#include "device/device.h"
#include "device/tensor.h"
#include "nn/network.h"
#include "nn/parameters.h"
#include "nn/segments.h"
#include "ops/ops.h"

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ddp {

// Called when the gradient of parameter `id` is issued and final for this step.
using GradientReady = std::function<void(int id)>;

// Replaces values on the device by their sums over ranks, ordered before later device work. All ranks make the same
// calls in the same order, with the same counts.
using AllReduceFn = std::function<void(float* values, int64_t count)>;

// The flat buffers of one rank, in device memory. They outlive the model. Inference needs only the weights.
struct ModelMemory {
  const float* weights = nullptr;        // in the layout of parameters_of()
  float* gradients = nullptr;            // in the same layout
  float* bn_batch_sums = nullptr;        // this rank's sums of all batch norms, in the layout of batch_norm_states_of()
  const float* running_stats = nullptr;  // of all batch norms, in the same layout; means are the centres of the sums
  float* loss_stats = nullptr;           // two values: sum of losses, number of correct predictions
  const uint32_t* epoch = nullptr;       // one value, for dropout and augmentation
  const Buffer* arena = nullptr;         // of a model that never computes at the same time; used if it is large enough
};

struct ModelConfig {
  bool inference = false;  // no backward pass: no memory for gradients, nor for the activations that it would read
  bool sync_bn = false;    // training normalises over the micro-batch of all ranks, not over this rank's shard
  AllReduceFn all_reduce;  // null with one rank
  float label_smoothing = 0;
  uint64_t seed = 0;  // of dropout and augmentation
  PixelScale pixel_scale = {};
  Augmentation augmentation = {};  // of training images; the model sets its seed and epoch
};

// Arguments that all layers share in one pass over one batch.
struct Pass {
  enum class Kind { train, precise_bn, evaluate };  // precise_bn: a training forward pass that collects statistics
  Kind kind = Kind::evaluate;
  DeviceBatch batch;
  Gradient mode = Gradient::overwrite;            // for gradients, batch-norm sums and loss_stats
  const float* running_stats = nullptr;           // means are the centres of the sums; evaluation normalises by both
  const uint32_t* epoch = nullptr;                // in device memory; null: epoch 0
  const GradientReady* gradient_ready = nullptr;  // null if a later micro-batch adds to the gradients
  uint16_t* bf16_gradients = nullptr;             // flat buffer where ops may leave gradients (Conv2d); null: nowhere
  // Whether a call has the first and the last samples of the batch. Calls come in the order of samples.
  bool first = true, last = true;

  // How a call adds what it sums over its samples: only that of the first samples may overwrite.
  Gradient slice_mode() const { return first ? mode : Gradient::add; }
};

struct LayerValues {
  Tensor x, skip, y;  // skip has no data if the layer has no skip input
};

// The gradient of y is dy, or dy + more if `more` has data. dx and dskip are to be written; one without data is not
// needed. dskip has data only if the layer separates it.
struct LayerGradients {
  Tensor dy, more, dx, dskip;
};

class Layer {
 public:
  explicit Layer(std::vector<int> parameters = {}) : parameters_(std::move(parameters)) {}
  virtual ~Layer() = default;
  virtual Format output_format() const = 0;

  // Whether backward reads x and y. The memory plan uses this.
  virtual bool saves_input() const = 0;
  virtual bool saves_output() const = 0;
  // Whether backward accepts the gradient of y as a sum of two tensors.
  virtual bool accepts_split_gradient() const { return false; }

  // Whether backward writes the gradient of `skip` to dskip; else it leaves it in dy.
  virtual bool separates_skip() const { return false; }

  // Whether it reads weights that are trained; they may be those of another layer.
  virtual bool trains() const { return !parameters_.empty(); }

  // The slices of a batch that forward and backward, and their sums, take one after the other (nn/segments.h).
  virtual SliceSamples slices() const { return {}; }
  // Whether forward may be called again in the backward pass, with the same x, from the first samples on. It then
  // gives the same y, so it keeps the sums of the forward pass.
  virtual bool recomputes() const { return false; }
  // Whether backward reads dy twice, for the weight gradient and for the gradient of the input.
  virtual bool reads_gradient_twice() const { return false; }

  // `weights` is the flat buffer. Call this again after each change of its values.
  virtual void bind(const WeightData& weights) { (void)weights; }

  // A layer that needs sums over the whole batch first, for forward and for backward: forward_sum for all slices comes
  // before forward_reduce, and that before forward. So it is in the backward pass, where `gradients` has no dx.
  // backward_sum reads and may overwrite dy; backward reads what it leaves there.
  virtual bool has_sums() const { return false; }
  virtual void forward_sum(const LayerValues&, const Pass&) {}
  virtual void forward_reduce(const Pass&) {}
  virtual void backward_sum(const LayerValues&, const LayerGradients&, const Pass&) {}
  virtual void backward_reduce(const Pass&) {}

  virtual void forward(const LayerValues& values, const Pass& pass) = 0;

  // Computes the weight gradients, then the gradients of the inputs. Announces the former as soon as they are complete
  // and nothing reads them here. May overwrite dy.
  virtual void backward(const LayerValues& values, const LayerGradients& gradients, const Pass& pass) = 0;

  // For a rank with an empty batch, which calls forward_reduce and backward_reduce too: together they make the same
  // collectives and announcements as above. Gradients are not touched.
  virtual void backward_empty(const Pass& pass) { announce(pass); }

 protected:
  void announce(const Pass& pass) const {
    if (!pass.gradient_ready) return;
    for (const int id : parameters_) (*pass.gradient_ready)(id);
  }

 private:
  std::vector<int> parameters_;  // ids of trained parameters, in the order announced
};

// The range in which the backward pass of a layer computes the gradients of its weights, if those come apart.
inline constexpr const char* kWeightGradientRange = "weight gradient";

// Arguments of make_layer that all layers share. The references outlive the layers; the spans need not.
struct LayerContext {
  Ops& ops;
  Device& device;
  const ModelConfig& config;
  const ModelMemory& memory;
  std::span<const Parameter> parameters;
  std::span<const BatchNormState> batch_norms;
  std::span<const int64_t> batch_sizes;
  bool dense = false;   // Network::prefers_dense()
  bool slices = false;  // whether layers may compute batches in slices; no format is then batch-interleaved
};

// `input_gradient`: whether backward is called with a dx that has data. Returns null for a view.
std::unique_ptr<Layer> make_layer(const LayerSpec& spec, int index, bool input_gradient, Format input_format,
                                  const LayerContext& context);
std::unique_ptr<Layer> make_batch_norm_layer(const LayerSpec& spec, int index, bool input_gradient, Format format,
                                             const LayerContext& context);
// For a batch norm whose parameters are all frozen.
std::unique_ptr<Layer> make_frozen_batch_norm_layer(const LayerSpec& spec, int index, Format format,
                                                    const RunningStatsSpan& span, const LayerContext& context);

// Of a layer norm or a group norm.
std::unique_ptr<Layer> make_layer_norm_layer(const LayerSpec& spec, int index, const LayerContext& context);
std::unique_ptr<Layer> make_attention_layer(const LayerSpec& spec, const LayerContext& context);
// For a concat and a gate.
std::unique_ptr<Layer> make_join_layer(const LayerSpec& spec, Format format, const LayerContext& context);
std::unique_ptr<Layer> make_layer_scale_layer(const LayerSpec& spec, int index, Format format,
                                              const LayerContext& context);
// For an embedding, a class token, a position embedding and a first token.
std::unique_ptr<Layer> make_token_layer(const LayerSpec& spec, int index, const LayerContext& context);

// A copy of its input in another format.
std::unique_ptr<Layer> make_reorder_layer(Ops& ops, Format format);

// The format in which a layer reads its first input, which a model has in `given`. `dense`: Network::prefers_dense().
Format input_format_of(const LayerSpec& spec, Format given, bool dense);

bool is_reshape(const LayerSpec& spec);  // a flatten or tokens
bool is_dropout(const LayerSpec& spec);  // a dropout or stochastic depth: the identity in inference
Conv2dDesc conv2d_desc(const LayerSpec& spec, bool input_gradient, Format input_format, bool dense);

}  // namespace ddp
