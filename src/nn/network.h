// A description of a network as a graph of layers. It allocates no device memory.
//
// Each call adds a layer after the last one; residual() adds two paths and their sum. Each call infers the output
// shape. A layer that does not fit its input throws Error(Exit::model) with the name of the layer, its input shape and
// the image shape.
//
// Layer names are those of the same network in PyTorch, such as "layer1.0.conv1": the names of the enclosing blocks,
// then the name from named(), or else the index in the enclosing nn.Sequential.
#pragma once

#include "core/shape.h"
#include "ops/pool2d.h"
#include "ops/window.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// Defaults are PyTorch's.
struct ConvOptions {
  int64_t stride = 1;
  Padding padding = {};
  bool same = false;  // Keras's padding="same"; `padding` is then ignored
  bool bias = true;
};

struct BatchNormOptions {
  float epsilon = 1e-5f;
  float momentum = 0.1f;  // weight of the batch in the running statistics; Keras's momentum is 1 minus this
  bool scale = true;      // whether the layer has a trained scale
  bool unbiased = true;   // whether the running variance is the unbiased estimate; false in Keras
};

struct LayerSpec {
  enum class Kind { conv2d, linear, batch_norm, relu, pool2d, flatten, dropout, add };
  static constexpr int kImage = -1, kNone = -2;  // values of `from` and `skip` that are no layer
  // Who computes the gradient of a convolution's bias. Where only a batch norm reads the output, nobody: the norm
  // subtracts the mean, so the gradient is 0. Where only a batch norm reads it, as `skip`, the norm: the gradient is
  // that of its shift. Both hold for each sum over ranks and micro-batches. A gradient of nobody keeps the zeros of
  // its buffer.
  enum class BiasGradient { layer, norm, nobody };

  Kind kind;
  std::string name = {};  // as in PyTorch
  int from = kImage;      // index of the layer whose output this layer reads
  int skip = kNone;       // second input, of an add or of a batch_norm that contains one
  ImageShape input = {}, output = {};
  bool relu = false;     // conv2d, linear, batch_norm: contains the ReLU that follows
  bool view = false;     // the output is the memory of `from`: a flatten, or a layer fused into `from`
  bool pooled = false;   // conv2d: contains a ReLU that only a pool reads
  Window2d window = {};  // conv2d, pool2d
  bool bias = true;      // conv2d
  BiasGradient bias_gradient = BiasGradient::layer;
  ImageShape flattened = {};  // linear: shape of the image before the flatten
  Pool2dDesc::Kind pool = Pool2dDesc::Kind::average;
  int pooled_conv = kNone;  // pool2d: the convolution that is `pooled` here
  BatchNormOptions norm = {};
  bool trains_weight = true, trains_bias = true;  // conv2d, linear, batch_norm: whether the optimizer changes them
  float rate = 0;                                 // dropout

  // A batch norm whose parameters are all frozen.
  bool is_frozen_norm() const { return kind == Kind::batch_norm && !trains_bias && !(norm.scale && trains_weight); }
};

const char* name_of(LayerSpec::Kind kind);

class Network {
 public:
  Network(std::string name, ImageShape input);
  Network(const Network& network, std::vector<LayerSpec> layers);  // `network` with other specs of its layers

  Network& conv2d(int64_t out_channels, int64_t kernel, const ConvOptions& options = {});
  Network& linear(int64_t out_features);
  Network& batch_norm(const BatchNormOptions& options = {});
  Network& relu();
  Network& avg_pool2d(int64_t kernel);  // stride = kernel
  Network& max_pool2d(int64_t kernel, int64_t stride, Padding padding = {});
  Network& global_avg_pool();
  Network& flatten();
  Network& dropout(float rate);

  Network& named(std::string name);  // names the next layer, block or sum

  using AddLayers = std::function<void(Network&)>;
  Network& block(const AddLayers& layers);  // a nested nn.Sequential
  // relu(main(x) + shortcut(x)). A shortcut without layers is the identity.
  Network& residual(const AddLayers& main, const AddLayers& shortcut);

  const std::string& name() const { return name_; }
  ImageShape input() const { return input_; }
  ImageShape output() const { return at(last_); }
  const std::vector<LayerSpec>& layers() const { return layers_; }

  // The same layers, without the rows and columns that no later layer reads: a pooling whose windows do not cover its
  // whole input leaves some unread. The first layer then reads the top left part of the image. Results and gradients
  // do not change. (LeNet on 28 x 28 reads 26 x 26, and its second convolution writes 8 x 8, not 9 x 9.)
  Network trimmed() const;

 private:
  ImageShape at(int layer) const { return layer == LayerSpec::kImage ? input_ : layers_[layer].output; }
  std::string peek_name() const;  // name of the next layer
  std::string take_name();        // the same, and moves on to the name after it
  int flatten_before() const;
  bool ends_in_bias(int layer) const;
  void add(LayerSpec layer, const std::string& what, bool fits = true);
  void add_pool(Pool2dDesc::Kind kind, const Window2d& window, const std::string& what);

  std::string name_;
  ImageShape input_;
  std::vector<LayerSpec> layers_;
  int last_ = LayerSpec::kImage;  // the layer whose output the next layer reads
  bool forked_ = false;           // two paths read the output of last_, so nothing is fused into last_
  std::string prefix_;            // of names in the current block
  int number_ = 0;                // index of the next layer in the current block
  std::optional<std::string> given_name_;
};

}  // namespace ddp
