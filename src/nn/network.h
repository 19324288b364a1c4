// A description of a network as a graph of layers. It allocates no device memory.
//
// Each call adds a layer after the last one; residual() adds two paths and their sum. here() and from() make any other
// graph. Each call infers the output shape. A layer that does not fit its input throws Error(Exit::model) with the name
// of the layer, its input shape and the image shape.
//
// Tokens are positions: an image of h x w positions with c channels is a sequence of h*w tokens in rows, {h*w, 1, c}.
//
// Layer names are those of the same network in PyTorch, such as "layer1.0.conv1": the names of the enclosing blocks,
// then the name from named(), or else the index in the enclosing nn.Sequential.
#pragma once

#include "core/shape.h"
#include "nn/init_rule.h"
#include "ops/activation.h"
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
  int64_t groups = 1;
  int64_t dilation = 1;
};

struct BatchNormOptions {
  float epsilon = 1e-5f;
  float momentum = 0.1f;  // weight of the batch in the running statistics; Keras's momentum is 1 minus this
  bool scale = true;      // whether the layer has a trained scale
  bool unbiased = true;   // whether the running variance is the unbiased estimate; false in Keras
};

struct LayerSpec {
  enum class Kind {
    conv2d,
    linear,  // of the channels of each position
    batch_norm,
    layer_norm,
    group_norm,
    activation,
    pool2d,
    flatten,  // h x w x c to 1 x 1 x hwc
    tokens,   // h x w x c to hw x 1 x c
    dropout,
    stochastic_depth,    // keeps or drops a sample as a whole
    add,                 // from + skip
    concat,              // the channels of from, then those of skip
    gate,                // from * skip; skip is 1 x 1 and has as many channels
    layer_scale,         // times a trained value for each channel
    embedding,           // tokens of the data to their rows of a trained table, T x 1 x c
    class_token,         // a trained token before those of the input
    position_embedding,  // plus a trained value for each token and channel
    attention,           // tokens x 1 x 3c to tokens x 1 x c (ops/attention.h)
    first_token          // the first token, 1 x 1 x c
  };
  static constexpr int kImage = -1, kNone = -2;  // values of `from` and `skip` that are no layer
  // Who computes the gradient of a convolution's bias. Where only a batch norm reads the output, nobody: the norm
  // subtracts the mean, so the gradient is 0. Where only a batch norm reads it, as `skip`, the norm: the gradient is
  // that of its shift. Both hold for each sum over ranks and micro-batches. A gradient of nobody keeps the zeros of
  // its buffer.
  enum class BiasGradient { layer, norm, nobody };

  Kind kind;
  std::string name = {};  // as in PyTorch
  int from = kImage;      // index of the layer whose output this layer reads
  int skip = kNone;       // second input, of an add, a concat, a gate, or a batch_norm that contains an add
  ImageShape input = {}, output = {};
  Activation activation = {};  // conv2d, linear: contains the ReLU that follows; batch_norm: the activation
  bool view = false;     // the output is the memory of `from`: a reshape, the identity, or a layer fused into `from`
  bool pooled = false;   // conv2d: contains a ReLU that only a pool reads
  Window2d window = {};  // conv2d, pool2d
  int64_t groups = 1;    // conv2d, group_norm
  bool bias = true;      // conv2d, linear
  BiasGradient bias_gradient = BiasGradient::layer;
  ImageShape flattened = {};  // linear: shape of the image before the flatten, or 1 x 1 x channels
  Pool2dDesc::Kind pool = Pool2dDesc::Kind::average;
  int pooled_conv = kNone;                        // pool2d: the convolution that is `pooled` here
  BatchNormOptions norm = {};                     // of all norms; layer_norm and group_norm have epsilon only
  bool trains_weight = true, trains_bias = true;  // whether the optimizer changes them
  float rate = 0;                                 // dropout, stochastic_depth
  float initial = 1;                              // layer_scale: the value before training
  int64_t heads = 1;                              // attention
  bool causal = false;                            // attention
  int64_t rows = 0;      // embedding, position_embedding: of the table; 0: a position embedding with one for each token
  int tied = kNone;      // linear: the embedding whose table is the weight
  bool is_tied = false;  // embedding: its table is the weight of a linear layer too
  bool transposed = false;                    // linear: PyTorch has the weight as {I,O}
  bool joined_names = false;                  // linear: parameters are name + "_weight", not name + ".weight"
  InitRule weight_init = {}, bias_init = {};  // as Network::initialized()

  bool has_relu() const { return activation.is_relu(); }
  // A batch norm whose parameters are all frozen.
  bool is_frozen_norm() const { return kind == Kind::batch_norm && !trains_bias && !(norm.scale && trains_weight); }
};

const char* name_of(LayerSpec::Kind kind);
const char* name_of(Activation::Kind kind);

class Network {
 public:
  Network(std::string name, ImageShape input);
  Network(const Network& network, std::vector<LayerSpec> layers);  // `network` with other specs of its layers

  Network& conv2d(int64_t out_channels, int64_t kernel, const ConvOptions& options = {});
  Network& linear(int64_t out_features, bool bias = true);
  // A linear layer without bias, the only one whose weight is the table of `embedding`, a value of the graph.
  Network& tied_linear(int embedding);
  // The last layer, a linear one, has its weight in the order {I,O} in PyTorch, as Conv1D of transformers.
  Network& transposed();
  Network& batch_norm(const BatchNormOptions& options = {});
  Network& layer_norm(float epsilon = 1e-5f);
  Network& group_norm(int64_t groups, float epsilon = 1e-5f);
  Network& activation(const Activation& activation);
  Network& relu() { return activation(kRelu); }
  Network& avg_pool2d(int64_t kernel);  // stride = kernel
  Network& max_pool2d(int64_t kernel, int64_t stride, Padding padding = {});
  Network& global_avg_pool();
  Network& adaptive_avg_pool(int64_t h, int64_t w);
  Network& flatten();
  Network& dropout(float rate);
  Network& stochastic_depth(float rate);
  Network& layer_scale(float initial);

  Network& tokens();
  Network& class_token();
  // `rows`: positions of the table, of which the input has at most as many; 0: as many as the input.
  Network& position_embedding(int64_t rows = 0);
  // The first layer of a network that reads tokens. `rows`: the size of the vocabulary.
  Network& embedding(int64_t channels, int64_t rows);
  // For an input of T x 1 x 3c, which has query, key and value of each token (ops/attention.h).
  Network& scaled_dot_product_attention(int64_t heads, bool causal);
  // torch.nn.MultiheadAttention with batch_first, of one input: in_proj, the attention and out_proj.
  Network& attention(int64_t heads, bool causal = false);
  Network& first_token();

  Network& named(std::string name);  // names the next layer, block or sum
  std::string peek_name() const;     // of the next layer or block
  // How the values of the last layer, a conv2d, linear, embedding or position embedding, begin. The default is
  // PyTorch's rule of that layer.
  Network& initialized(const InitRule& weight, const InitRule& bias);

  using AddLayers = std::function<void(Network&)>;
  Network& block(const AddLayers& layers);  // a nested nn.Sequential
  // relu(main(x) + shortcut(x)). A shortcut without layers is the identity.
  Network& residual(const AddLayers& main, const AddLayers& shortcut);

  // A value of the graph: the output of the last layer. More than one layer may read it, so no later layer is fused
  // into the last one.
  int here();
  Network& from(int value);    // the next layer reads this value
  Network& add(int value);     // value + the last output, of the same shape
  Network& concat(int value);  // the channels of value, then those of the last output
  Network& gate(int value);    // value * the last output, which is 1 x 1 and has as many channels

  // The first layer before the last one whose output no layer reads; -1: there is none.
  int unread_layer() const;

  const std::string& name() const { return name_; }
  ImageShape input() const { return input_; }
  ImageShape output() const { return at(last_); }
  bool ends_in_last_layer() const {
    return last_ == static_cast<int>(layers_.size()) - 1;
  }  // whether that gives output()
  const std::vector<LayerSpec>& layers() const { return layers_; }

  // Whether it reads tokens, not images. Its output is then T x 1 x classes.
  bool reads_tokens() const;

  // Whether all activations are dense on every backend: the network has a layer for which that is the fastest format,
  // such as a grouped convolution, or the only one, such as a layer norm.
  bool prefers_dense() const;

  // The same layers, without the rows and columns that no later layer reads: a pooling whose windows do not cover its
  // whole input leaves some unread. The first layer then reads the top left part of the image. Results and gradients
  // do not change. (LeNet on 28 x 28 reads 26 x 26, and its second convolution writes 8 x 8, not 9 x 9.)
  Network trimmed() const;

 private:
  ImageShape at(int layer) const { return layer == LayerSpec::kImage ? input_ : layers_[layer].output; }
  std::string take_name();  // the same, and moves on to the name after it
  int flatten_before() const;
  int flatten_after(const LayerSpec& layer) const;
  bool is_permuted(int value) const;
  ImageShape flattened(int value) const {
    return layers_[static_cast<size_t>(flattens_[static_cast<size_t>(value)])].input;
  }
  void require_order_of_features(const LayerSpec& layer, const std::string& what) const;
  void require_tokens(const char* what) const;
  bool is_biased_convolution(int value) const;
  void count_reader(int value);
  bool is_shared(int layer) const { return layer < 0 || shared_[static_cast<size_t>(layer)]; }
  void require_same_positions(int value, const char* what) const;
  void add(LayerSpec layer, const std::string& what, bool fits = true);
  void add_pool(Pool2dDesc::Kind kind, const Window2d& window, const std::string& what);

  std::string name_;
  ImageShape input_;
  std::vector<LayerSpec> layers_;
  int last_ = LayerSpec::kImage;  // the layer whose output the next layer reads
  std::vector<bool> shared_;      // by layer: here() gave its output away, so nothing is fused into it
  std::vector<int> readers_;      // by layer: layers that read its output
  std::vector<int> flattens_;     // by layer: the flatten whose features are still separate in its output; -1: none
  std::string prefix_;            // of names in the current block
  int number_ = 0;                // index of the next layer in the current block
  std::optional<std::string> given_name_;
};

}  // namespace ddp
