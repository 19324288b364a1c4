// The layers that a network may have: what each needs of its input, and its output shape.
#include "core/error.h"
#include "nn/network.h"

#include <algorithm>
#include <utility>

namespace ddp {
namespace {

using LayerKind = LayerSpec::Kind;
using BiasGradient = LayerSpec::BiasGradient;

}  // namespace

Network& Network::conv2d(int64_t out_channels, int64_t kernel, const ConvOptions& options) {
  const Padding padding =
      options.same ? same_padding(output(), (kernel - 1) * options.dilation + 1, options.stride) : options.padding;
  const Window2d window{kernel, options.stride, padding, options.dilation};
  const int64_t groups = options.groups, in = output().c;
  require(
      groups >= 1 && in % groups == 0 && out_channels % groups == 0, Exit::model,
      "model {}: layer {} (conv2d {}@{}x{}) has {} groups, which must divide its {} input channels and its {} output "
      "channels",
      name_, peek_name(), out_channels, kernel, kernel, groups, in, out_channels);
  add({.kind = LayerKind::conv2d,
       .output = window_output(output(), window, out_channels),
       .window = window,
       .groups = groups,
       .bias = options.bias},
      fmt::format("conv2d {}@{}x{}", out_channels, kernel, kernel), window_fits(output(), window));
  return *this;
}

Network& Network::linear(int64_t out_features, bool bias) {
  const ImageShape in = output();
  const int flatten = flatten_before();
  add({.kind = LayerKind::linear,
       .output = {in.h, in.w, out_features},
       .bias = bias,
       .flattened = flatten >= 0 ? layers_[flatten].input : ImageShape{1, 1, in.c}},
      fmt::format("linear {}", out_features));
  return *this;
}

Network& Network::tied_linear(int embedding) {
  const bool is_embedding = embedding >= 0 && layers_[static_cast<size_t>(embedding)].kind == LayerKind::embedding;
  require(is_embedding, Exit::model, "model {}: layer {} (linear) is tied to a layer that is no embedding", name_,
          peek_name());
  const LayerSpec& table = layers_[static_cast<size_t>(embedding)];
  require(output().c == table.output.c, Exit::model,
          "model {}: layer {} (linear) reads {} channels, and the embedding that it is tied to has {}", name_,
          peek_name(), output().c, table.output.c);
  require(!table.is_tied, Exit::model, "model {}: layer {} (linear): another layer is tied to the embedding {} already",
          name_, peek_name(), table.name);
  linear(table.rows, false);
  layers_.back().tied = embedding;
  layers_[static_cast<size_t>(embedding)].is_tied = true;
  return *this;
}

Network& Network::transposed() {
  LayerSpec& layer = layers_.back();
  DDP_EXPECT(layer.kind == LayerKind::linear && layer.tied == LayerSpec::kNone);
  require(layer.flattened.h * layer.flattened.w == 1, Exit::model,
          "model {}: layer {} (linear) reads a flattened image, so its weight cannot be transposed", name_, layer.name);
  layer.transposed = true;
  return *this;
}

// The flatten whose features are still separate in the output of the last layer; -1: none.
int Network::flatten_before() const { return last_ < 0 ? -1 : flattens_[static_cast<size_t>(last_)]; }

// Whether `value` is that of a convolution that ends in its bias, and has one reader up to now.
bool Network::is_biased_convolution(int value) const {
  if (value < 0 || readers_[static_cast<size_t>(value)] != 1) return false;
  const LayerSpec& layer = layers_[static_cast<size_t>(value)];
  return layer.kind == LayerKind::conv2d && layer.bias && !layer.activation;
}

Network& Network::batch_norm(const BatchNormOptions& options) {
  const int before = last_;
  add({.kind = LayerKind::batch_norm, .output = output(), .norm = options}, "batch norm");
  if (is_biased_convolution(before)) layers_[static_cast<size_t>(before)].bias_gradient = BiasGradient::nobody;
  return *this;
}

Network& Network::layer_norm(float epsilon) {
  add({.kind = LayerKind::layer_norm, .output = output(), .norm = {.epsilon = epsilon}}, "layer norm");
  return *this;
}

Network& Network::group_norm(int64_t groups, float epsilon) {
  require(groups >= 1 && output().c % groups == 0, Exit::model,
          "model {}: layer {} (group norm) has {} groups, which must divide its {} channels", name_, peek_name(),
          groups, output().c);
  add({.kind = LayerKind::group_norm, .output = output(), .groups = groups, .norm = {.epsilon = epsilon}},
      "group norm");
  return *this;
}

// Fuses the activation into the layer before it if that can contain it, unless another path reads that layer. If that
// layer is a sum that is itself fused into a batch norm, the activation goes into the batch norm.
Network& Network::activation(const Activation& activation) {
  int target = last_;
  if (target >= 0 && layers_[target].kind == LayerKind::add && layers_[target].view) target = layers_[target].from;
  const auto takes = [&](const LayerSpec& layer) {
    if (layer.activation) return false;
    if (activation.is_relu())
      return layer.kind == LayerKind::conv2d || layer.kind == LayerKind::linear || layer.kind == LayerKind::batch_norm;
    return layer.kind == LayerKind::batch_norm && layer.skip == LayerSpec::kNone;
  };
  const bool fused = target >= 0 && !is_shared(last_) && !is_shared(target) && takes(layers_[target]);
  if (fused) layers_[target].activation = activation;
  add({.kind = LayerKind::activation, .output = output(), .activation = activation, .view = fused},
      name_of(activation.kind));
  return *this;
}

void Network::add_pool(Pool2dDesc::Kind kind, const Window2d& window, const std::string& what) {
  const Pool2dDesc desc{.kind = kind, .input = output(), .format = {}, .window = window};
  const auto& [top, left, bottom, right] = window.padding;
  // Larger padding would make windows that contain nothing but padding.
  const bool some_padding_only = std::max({top, left, bottom, right}) < window.kernel;
  const bool after_relu =
      last_ >= 0 && layers_[last_].kind == LayerKind::activation && layers_[last_].view && !is_shared(last_);
  const int layer = after_relu ? layers_[last_].from : LayerSpec::kNone;
  const int conv = layer >= 0 && layers_[layer].kind == LayerKind::conv2d ? layer : LayerSpec::kNone;
  if (conv >= 0) layers_[conv].pooled = true;
  add({.kind = LayerKind::pool2d, .output = pool2d_output(desc), .window = window, .pool = kind, .pooled_conv = conv},
      what, window_fits(output(), window) && (window.padding.none() || some_padding_only));
}

Network& Network::avg_pool2d(int64_t kernel) {
  add_pool(Pool2dDesc::Kind::average, {kernel, kernel, {}}, fmt::format("average pool {}x{}", kernel, kernel));
  return *this;
}

Network& Network::max_pool2d(int64_t kernel, int64_t stride, Padding padding) {
  add_pool(Pool2dDesc::Kind::maximum, {kernel, stride, padding}, fmt::format("max pool {}x{}", kernel, kernel));
  return *this;
}

Network& Network::global_avg_pool() {
  add_pool(Pool2dDesc::Kind::global_average, {}, "global average pool");
  return *this;
}

Network& Network::adaptive_avg_pool(int64_t h, int64_t w) {
  const bool same = h == output().h && w == output().w;
  add({.kind = LayerKind::pool2d,
       .output = {h, w, output().c},
       .view = same,
       .pool = Pool2dDesc::Kind::adaptive_average},
      fmt::format("adaptive average pool {}x{}", h, w));
  return *this;
}

Network& Network::flatten() {
  add({.kind = LayerKind::flatten, .output = {1, 1, output().elements()}, .view = true}, "flatten");
  return *this;
}

Network& Network::dropout(float rate) {
  require(rate >= 0 && rate < 1, Exit::model, "model {}: layer {} (dropout of {}): the rate must be in [0, 1)", name_,
          peek_name(), rate);
  add({.kind = LayerKind::dropout, .output = output(), .rate = rate}, "dropout");
  return *this;
}

Network& Network::stochastic_depth(float rate) {
  require(rate >= 0 && rate < 1, Exit::model, "model {}: layer {} (stochastic depth of {}): the rate must be in [0, 1)",
          name_, peek_name(), rate);
  add({.kind = LayerKind::stochastic_depth, .output = output(), .rate = rate}, "stochastic depth");
  return *this;
}

Network& Network::layer_scale(float initial) {
  add({.kind = LayerKind::layer_scale, .output = output(), .initial = initial}, "layer scale");
  return *this;
}

Network& Network::tokens() {
  const ImageShape in = output();
  add({.kind = LayerKind::tokens, .output = {in.h * in.w, 1, in.c}, .view = true}, "tokens");
  return *this;
}

void Network::require_tokens(const char* what) const {
  const auto& [h, w, c] = output();
  require(w == 1, Exit::model, "model {}: layer {} ({}) follows an image of {}x{}x{}; put tokens before it", name_,
          peek_name(), what, h, w, c);
}

Network& Network::class_token() {
  const ImageShape in = output();
  require_tokens("class token");
  add({.kind = LayerKind::class_token, .output = {in.h + 1, 1, in.c}}, "class token");
  return *this;
}

Network& Network::position_embedding(int64_t rows) {
  const ImageShape in = output();
  require_tokens("position embedding");
  require(rows == 0 || in.h <= rows, Exit::model,
          "model {}: layer {} (position embedding of {} positions) cannot take {} tokens; {}", name_, peek_name(), rows,
          in.h, reads_tokens() ? "use a shorter --sequence-length" : "give it as many positions as tokens");
  add({.kind = LayerKind::position_embedding, .output = in, .rows = rows}, "position embedding");
  layers_.back().weight_init = {InitRule::Kind::normal, 0.02};
  return *this;
}

Network& Network::embedding(int64_t channels, int64_t rows) {
  require(layers_.empty(), Exit::model, "model {}: layer {} (embedding) reads the tokens of the data; put it first",
          name_, peek_name());
  add({.kind = LayerKind::embedding, .output = {output().h, 1, channels}, .rows = rows}, "embedding",
      output().w == 1 && output().c == 1);
  layers_.back().weight_init = {InitRule::Kind::normal, 1};
  return *this;
}

Network& Network::scaled_dot_product_attention(int64_t heads, bool causal) {
  const ImageShape in = output();
  require(heads >= 1 && in.c % 3 == 0 && in.c / 3 % heads == 0 && in.w == 1, Exit::model,
          "model {}: layer {} (attention) has {} heads; its input is {}x{}x{}, and must be Tx1x3C, with heads that "
          "divide C",
          name_, peek_name(), heads, in.h, in.w, in.c);
  add({.kind = LayerKind::attention, .output = {in.h, 1, in.c / 3}, .heads = heads, .causal = causal}, "attention");
  return *this;
}

Network& Network::attention(int64_t heads, bool causal) {
  const ImageShape in = output();
  require(heads >= 1 && in.c % heads == 0 && in.w == 1, Exit::model,
          "model {}: layer {} (attention) has {} heads, which must divide the {} values of its tokens; its input is "
          "{}x{}x{}, and tokens are Tx1xC",
          name_, peek_name(), heads, in.c, in.h, in.w, in.c);
  const InitRule zeros{InitRule::Kind::constant, 0};
  return block([&](Network& net) {
    net.named("in_proj").linear(3 * in.c).initialized(
        *init_rule("xavier_uniform", {static_cast<double>(in.c), 3.0 * static_cast<double>(in.c)}), zeros);
    net.layers_.back().joined_names = true;
    net.named("attention").scaled_dot_product_attention(heads, causal);
    net.named("out_proj").linear(in.c).initialized({}, zeros);
  });
}

Network& Network::first_token() {
  const ImageShape in = output();
  require_tokens("first token");
  add({.kind = LayerKind::first_token, .output = {1, 1, in.c}}, "first token");
  return *this;
}

}  // namespace ddp
