#include "nn/network.h"

#include "core/error.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ddp {
namespace {

using Kind = LayerSpec::Kind;
using BiasGradient = LayerSpec::BiasGradient;

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::conv2d: return "conv2d";
    case Kind::linear: return "linear";
    case Kind::batch_norm: return "batch_norm";
    case Kind::layer_norm: return "layer_norm";
    case Kind::group_norm: return "group_norm";
    case Kind::activation: return "activation";
    case Kind::pool2d: return "pool2d";
    case Kind::flatten: return "flatten";
    case Kind::tokens: return "tokens";
    case Kind::dropout: return "dropout";
    case Kind::stochastic_depth: return "stochastic_depth";
    case Kind::add: return "add";
    case Kind::concat: return "concat";
    case Kind::gate: return "gate";
    case Kind::layer_scale: return "layer_scale";
    case Kind::class_token: return "class_token";
    case Kind::position_embedding: return "position_embedding";
    case Kind::attention: return "attention";
    case Kind::first_token: return "first_token";
  }
  return "layer";
}

const char* name_of(Activation::Kind kind) {
  using enum Activation::Kind;
  switch (kind) {
    case none: return "none";
    case relu: return "relu";
    case relu6: return "relu6";
    case leaky_relu: return "leaky_relu";
    case sigmoid: return "sigmoid";
    case hard_sigmoid: return "hard_sigmoid";
    case silu: return "silu";
    case hard_swish: return "hard_swish";
    case gelu: return "gelu";
    case gelu_tanh: return "gelu_tanh";
    case tanh: return "tanh";
  }
  return "activation";
}

Network::Network(std::string name, ImageShape input) : name_(std::move(name)), input_(input) {}

Network::Network(const Network& network, std::vector<LayerSpec> layers) : Network(network) {
  DDP_EXPECT(layers.size() == layers_.size());
  layers_ = std::move(layers);
}

std::string Network::peek_name() const { return prefix_ + given_name_.value_or(std::to_string(number_)); }

std::string Network::take_name() {
  std::string name = peek_name();
  if (!std::exchange(given_name_, std::nullopt)) ++number_;
  return name;
}

Network& Network::named(std::string name) {
  given_name_ = std::move(name);
  return *this;
}

Network& Network::initialized(const InitRule& weight, const InitRule& bias) {
  LayerSpec& layer = layers_.back();
  DDP_EXPECT(layer.kind == Kind::conv2d || layer.kind == Kind::linear);
  layer.weight_init = weight;
  layer.bias_init = bias;
  return *this;
}

// Sets the name, the input and the input shape of the layer.
void Network::add(LayerSpec layer, const std::string& what, bool fits) {
  layer.name = take_name();
  layer.from = last_;
  layer.input = output();
  const auto& [h, w, c] = layer.output;
  require(fits && h > 0 && w > 0 && c > 0, Exit::model,
          "model {} does not fit the data: layer {} ({}) cannot take an input of {}x{}x{}; the images are {}x{}x{}, "
          "use larger images or another --model",
          name_, layer.name, what, layer.input.h, layer.input.w, layer.input.c, input_.h, input_.w, input_.c);
  count_reader(layer.from);
  if (layer.skip != LayerSpec::kNone) count_reader(layer.skip);
  require_order_of_features(layer, what);
  flattens_.push_back(flatten_after(layer));
  layers_.push_back(std::move(layer));
  shared_.push_back(false);
  readers_.push_back(0);
  last_ = static_cast<int>(layers_.size()) - 1;
}

// Whether the features of `value` are those of an image of several positions, which PyTorch has in another order.
bool Network::is_permuted(int value) const {
  const int flatten = value < 0 ? -1 : flattens_[static_cast<size_t>(value)];
  return flatten >= 0 &&
         layers_[static_cast<size_t>(flatten)].input.h * layers_[static_cast<size_t>(flatten)].input.w > 1;
}

// A linear layer knows the order of its features; a layer that treats all alike keeps it.
void Network::require_order_of_features(const LayerSpec& layer, const std::string& what) const {
  switch (layer.kind) {
    case Kind::linear:
    case Kind::flatten:
    case Kind::dropout:
    case Kind::stochastic_depth:
    case Kind::activation: return;
    default: break;
  }
  const bool one = is_permuted(layer.from), other = layer.skip >= 0 && is_permuted(layer.skip);
  const bool alike = layer.kind == Kind::add && one && other && flattened(layer.from) == flattened(layer.skip);
  require(
      alike || (!one && !other), Exit::model,
      "model {}: layer {} ({}) follows the flatten of an image, whose features have another order in PyTorch; put it "
      "before the flatten or after a linear layer",
      name_, layer.name, what);
}

// The flatten whose features are still separate in the output of the layer that comes next; -1: none.
int Network::flatten_after(const LayerSpec& layer) const {
  switch (layer.kind) {
    case Kind::flatten: return flatten_before() >= 0 ? flatten_before() : static_cast<int>(layers_.size());
    case Kind::dropout:
    case Kind::stochastic_depth:
    case Kind::activation:
    case Kind::batch_norm:
    case Kind::add: return flatten_before();
    default: return -1;
  }
}

// A second reader ends what holds for a value with one reader only.
void Network::count_reader(int value) {
  if (value < 0 || ++readers_[static_cast<size_t>(value)] < 2) return;
  layers_[static_cast<size_t>(value)].bias_gradient = BiasGradient::layer;
}

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
  add({.kind = Kind::conv2d,
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
  add({.kind = Kind::linear,
       .output = {in.h, in.w, out_features},
       .bias = bias,
       .flattened = flatten >= 0 ? layers_[flatten].input : ImageShape{1, 1, in.c}},
      fmt::format("linear {}", out_features));
  return *this;
}

// The flatten whose features are still separate in the output of the last layer; -1: none.
int Network::flatten_before() const { return last_ < 0 ? -1 : flattens_[static_cast<size_t>(last_)]; }

// Whether `value` is that of a convolution that ends in its bias, and has one reader up to now.
bool Network::is_biased_convolution(int value) const {
  if (value < 0 || readers_[static_cast<size_t>(value)] != 1) return false;
  const LayerSpec& layer = layers_[static_cast<size_t>(value)];
  return layer.kind == Kind::conv2d && layer.bias && !layer.activation;
}

Network& Network::batch_norm(const BatchNormOptions& options) {
  const int before = last_;
  add({.kind = Kind::batch_norm, .output = output(), .norm = options}, "batch norm");
  if (is_biased_convolution(before)) layers_[static_cast<size_t>(before)].bias_gradient = BiasGradient::nobody;
  return *this;
}

Network& Network::layer_norm(float epsilon) {
  add({.kind = Kind::layer_norm, .output = output(), .norm = {.epsilon = epsilon}}, "layer norm");
  return *this;
}

Network& Network::group_norm(int64_t groups, float epsilon) {
  require(groups >= 1 && output().c % groups == 0, Exit::model,
          "model {}: layer {} (group norm) has {} groups, which must divide its {} channels", name_, peek_name(),
          groups, output().c);
  add({.kind = Kind::group_norm, .output = output(), .groups = groups, .norm = {.epsilon = epsilon}}, "group norm");
  return *this;
}

// Fuses the activation into the layer before it if that can contain it, unless another path reads that layer. If that
// layer is a sum that is itself fused into a batch norm, the activation goes into the batch norm.
Network& Network::activation(const Activation& activation) {
  int target = last_;
  if (target >= 0 && layers_[target].kind == Kind::add && layers_[target].view) target = layers_[target].from;
  const auto takes = [&](const LayerSpec& layer) {
    if (layer.activation) return false;
    if (activation.is_relu())
      return layer.kind == Kind::conv2d || layer.kind == Kind::linear || layer.kind == Kind::batch_norm;
    return layer.kind == Kind::batch_norm && layer.skip == LayerSpec::kNone;
  };
  const bool fused = target >= 0 && !is_shared(last_) && !is_shared(target) && takes(layers_[target]);
  if (fused) layers_[target].activation = activation;
  add({.kind = Kind::activation, .output = output(), .activation = activation, .view = fused},
      name_of(activation.kind));
  return *this;
}

void Network::add_pool(Pool2dDesc::Kind kind, const Window2d& window, const std::string& what) {
  const Pool2dDesc desc{.kind = kind, .input = output(), .format = {}, .window = window};
  const auto& [top, left, bottom, right] = window.padding;
  // Larger padding would make windows that contain nothing but padding.
  const bool some_padding_only = std::max({top, left, bottom, right}) < window.kernel;
  const bool after_relu =
      last_ >= 0 && layers_[last_].kind == Kind::activation && layers_[last_].view && !is_shared(last_);
  const int layer = after_relu ? layers_[last_].from : LayerSpec::kNone;
  const int conv = layer >= 0 && layers_[layer].kind == Kind::conv2d ? layer : LayerSpec::kNone;
  if (conv >= 0) layers_[conv].pooled = true;
  add({.kind = Kind::pool2d, .output = pool2d_output(desc), .window = window, .pool = kind, .pooled_conv = conv}, what,
      window_fits(output(), window) && (window.padding.none() || some_padding_only));
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
  add({.kind = Kind::pool2d, .output = {h, w, output().c}, .view = same, .pool = Pool2dDesc::Kind::adaptive_average},
      fmt::format("adaptive average pool {}x{}", h, w));
  return *this;
}

Network& Network::flatten() {
  add({.kind = Kind::flatten, .output = {1, 1, output().elements()}, .view = true}, "flatten");
  return *this;
}

Network& Network::dropout(float rate) {
  require(rate >= 0 && rate < 1, Exit::model, "model {}: layer {} (dropout of {}): the rate must be in [0, 1)", name_,
          peek_name(), rate);
  add({.kind = Kind::dropout, .output = output(), .rate = rate}, "dropout");
  return *this;
}

Network& Network::stochastic_depth(float rate) {
  require(rate >= 0 && rate < 1, Exit::model, "model {}: layer {} (stochastic depth of {}): the rate must be in [0, 1)",
          name_, peek_name(), rate);
  add({.kind = Kind::stochastic_depth, .output = output(), .rate = rate}, "stochastic depth");
  return *this;
}

Network& Network::layer_scale(float initial) {
  add({.kind = Kind::layer_scale, .output = output(), .initial = initial}, "layer scale");
  return *this;
}

Network& Network::tokens() {
  const ImageShape in = output();
  add({.kind = Kind::tokens, .output = {in.h * in.w, 1, in.c}, .view = true}, "tokens");
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
  add({.kind = Kind::class_token, .output = {in.h + 1, 1, in.c}}, "class token");
  return *this;
}

Network& Network::position_embedding() {
  require_tokens("position embedding");
  add({.kind = Kind::position_embedding, .output = output()}, "position embedding");
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
    net.named("attention").add({.kind = Kind::attention, .output = in, .heads = heads, .causal = causal}, "attention");
    net.named("out_proj").linear(in.c).initialized({}, zeros);
  });
}

Network& Network::first_token() {
  const ImageShape in = output();
  require_tokens("first token");
  add({.kind = Kind::first_token, .output = {1, 1, in.c}}, "first token");
  return *this;
}

int Network::here() {
  if (last_ >= 0) shared_[static_cast<size_t>(last_)] = true;
  return last_;
}

Network& Network::from(int value) {
  DDP_EXPECT(value >= LayerSpec::kImage && value < static_cast<int>(layers_.size()));
  last_ = value;
  return *this;
}

void Network::require_same_positions(int value, const char* what) const {
  const ImageShape a = at(value), b = output();
  require(a.h == b.h && a.w == b.w, Exit::model, "model {}: layer {} ({}) cannot join {}x{}x{} and {}x{}x{}", name_,
          peek_name(), what, a.h, a.w, a.c, b.h, b.w, b.c);
}

// The sum is fused into a batch norm that is the last layer.
Network& Network::add(int value) {
  require(at(value) == output(), Exit::model, "model {}: layer {} (add) cannot add {}x{}x{} and {}x{}x{}", name_,
          peek_name(), at(value).h, at(value).w, at(value).c, output().h, output().w, output().c);
  LayerSpec* const norm = last_ >= 0 ? &layers_[static_cast<size_t>(last_)] : nullptr;
  const bool fused = norm && value < last_ && !is_shared(last_) && norm->kind == Kind::batch_norm &&
                     !norm->activation && norm->skip == LayerSpec::kNone;
  if (fused) {
    norm->skip = value;
    count_reader(value);
    if (is_biased_convolution(value)) layers_[static_cast<size_t>(value)].bias_gradient = BiasGradient::norm;
  }
  add({.kind = Kind::add, .skip = fused ? LayerSpec::kNone : value, .output = output(), .view = fused}, "add");
  return *this;
}

Network& Network::concat(int value) {
  require_same_positions(value, "concat");
  const int other = std::exchange(last_, value);
  const ImageShape a = at(value), b = at(other);
  add({.kind = Kind::concat, .skip = other, .output = {a.h, a.w, a.c + b.c}}, "concat");
  return *this;
}

Network& Network::gate(int value) {
  const int other = std::exchange(last_, value);
  const ImageShape a = at(value), b = at(other);
  require(b == ImageShape{1, 1, a.c}, Exit::model,
          "model {}: layer {} (gate) multiplies {}x{}x{} by {}x{}x{}, which must be 1x1x{}", name_, peek_name(), a.h,
          a.w, a.c, b.h, b.w, b.c, a.c);
  add({.kind = Kind::gate, .skip = other, .output = a}, "gate");
  return *this;
}

Network& Network::block(const AddLayers& layers) {
  const std::string prefix = take_name() + ".";
  const std::string outer = std::exchange(prefix_, prefix);
  const int number = std::exchange(number_, 0);
  layers(*this);
  prefix_ = outer;
  number_ = number;
  return *this;
}

// The shortcut is added first, so that the sum can be fused into a batch norm at the end of the main path.
Network& Network::residual(const AddLayers& main, const AddLayers& shortcut) {
  return block([&](Network& net) {
    const int fork = net.here();
    shortcut(net);
    const int skip = std::exchange(net.last_, fork);
    main(net);
    net.named("add").add(skip).named("relu").relu();
  });
}

bool Network::prefers_dense() const {
  return std::ranges::any_of(layers_, [](const LayerSpec& l) {
    switch (l.kind) {
      case Kind::conv2d: return l.groups > 1 || l.window.dilation > 1;
      case Kind::linear: return l.input.h * l.input.w > 1;
      case Kind::layer_norm:
      case Kind::group_norm:
      case Kind::attention:
      case Kind::class_token:
      case Kind::position_embedding:
      case Kind::first_token: return true;
      default: return false;
    }
  });
}

// Walks from the last leading layer that can be trimmed back to the image. A padded convolution depends on where its
// input ends, so it keeps its extents, and so do all layers after it; likewise a value that two layers read.
Network Network::trimmed() const {
  std::vector<LayerSpec> trimmed = layers_;
  std::vector<int> readers(trimmed.size() + 1, 0);  // number of readers of the image, then of each layer
  for (const LayerSpec& l : trimmed)
    for (const int read : {l.from, l.skip})
      if (read != LayerSpec::kNone) ++readers[read + 1];

  const auto trims = [](const LayerSpec& l) {
    return l.kind == Kind::activation || (l.kind == Kind::conv2d && l.window.padding.none()) ||
           (l.kind == Kind::pool2d && l.pool == Pool2dDesc::Kind::average);
  };
  auto end = trimmed.begin();
  while (end != trimmed.end() && trims(*end) && readers[end->from + 1] == 1) ++end;
  if (end == trimmed.begin()) return *this;
  ImageShape needed = std::prev(end)->output;
  for (auto layer = std::make_reverse_iterator(end); layer != trimmed.rend(); ++layer) {
    layer->output.h = needed.h;
    layer->output.w = needed.w;
    if (layer->kind != Kind::activation) {
      needed.h = (needed.h - 1) * layer->window.stride + layer->window.extent();
      needed.w = (needed.w - 1) * layer->window.stride + layer->window.extent();
    }
    layer->input.h = needed.h;
    layer->input.w = needed.w;
  }
  return {*this, std::move(trimmed)};
}

}  // namespace ddp
