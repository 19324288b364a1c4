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
    case Kind::relu: return "relu";
    case Kind::pool2d: return "pool2d";
    case Kind::flatten: return "flatten";
    case Kind::dropout: return "dropout";
    case Kind::add: return "add";
  }
  return "layer";
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
  layers_.push_back(std::move(layer));
  last_ = static_cast<int>(layers_.size()) - 1;
  forked_ = false;
}

Network& Network::conv2d(int64_t out_channels, int64_t kernel, const ConvOptions& options) {
  const Padding padding = options.same ? same_padding(output(), kernel, options.stride) : options.padding;
  const Window2d window{kernel, options.stride, padding};
  add({.kind = Kind::conv2d,
       .output = window_output(output(), window, out_channels),
       .window = window,
       .bias = options.bias},
      fmt::format("conv2d {}@{}x{}", out_channels, kernel, kernel), window_fits(output(), window));
  return *this;
}

Network& Network::linear(int64_t out_features) {
  const ImageShape in = output();
  require(in.h == 1 && in.w == 1, Exit::model,
          "model {}: layer {} (linear {}) follows an image of {}x{}x{}; put flatten() before it", name_, peek_name(),
          out_features, in.h, in.w, in.c);
  const int flatten = flatten_before();
  add({.kind = Kind::linear, .output = {1, 1, out_features}, .flattened = flatten >= 0 ? layers_[flatten].input : in},
      fmt::format("linear {}", out_features));
  return *this;
}

// The flatten whose features are still separate in the output of the last layer; -1: none.
int Network::flatten_before() const {
  int layer = last_;
  const auto keeps = [](Kind kind) { return kind == Kind::dropout || kind == Kind::relu || kind == Kind::batch_norm; };
  while (layer >= 0 && keeps(layers_[layer].kind)) layer = layers_[layer].from;
  return layer >= 0 && layers_[layer].kind == Kind::flatten ? layer : -1;
}

// Whether the layer is a convolution that ends in its bias.
bool Network::ends_in_bias(int layer) const {
  return layer >= 0 && layers_[layer].kind == Kind::conv2d && layers_[layer].bias && !layers_[layer].relu;
}

Network& Network::batch_norm(const BatchNormOptions& options) {
  const int flatten = flatten_before();
  const bool permuted = flatten >= 0 && layers_[flatten].input.h * layers_[flatten].input.w > 1;
  require(!permuted, Exit::model,
          "model {}: layer {} (batch norm) follows the flatten of an image, whose features have another order in "
          "PyTorch; put it before the flatten or after a linear layer",
          name_, peek_name());
  if (ends_in_bias(last_) && !forked_) layers_[last_].bias_gradient = BiasGradient::nobody;
  add({.kind = Kind::batch_norm, .output = output(), .norm = options}, "batch norm");
  return *this;
}

// Fuses the ReLU into the layer before it, unless another path reads that layer. If that layer is a sum that is itself
// fused into a batch norm, the ReLU goes into the batch norm.
Network& Network::relu() {
  int target = last_;
  if (target >= 0 && layers_[target].kind == Kind::add && layers_[target].view) target = layers_[target].from;
  const auto takes = [](Kind kind) { return kind == Kind::conv2d || kind == Kind::linear || kind == Kind::batch_norm; };
  const bool fused = target >= 0 && !forked_ && !layers_[target].relu && takes(layers_[target].kind);
  if (fused) layers_[target].relu = true;
  add({.kind = Kind::relu, .output = output(), .view = fused}, "relu");
  return *this;
}

void Network::add_pool(Pool2dDesc::Kind kind, const Window2d& window, const std::string& what) {
  const Pool2dDesc desc{.kind = kind, .input = output(), .format = {}, .window = window};
  const auto& [top, left, bottom, right] = window.padding;
  // Larger padding would make windows that contain nothing but padding.
  const bool some_padding_only = std::max({top, left, bottom, right}) < window.kernel;
  const bool after_relu = last_ >= 0 && layers_[last_].kind == Kind::relu && layers_[last_].view && !forked_;
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
    const int fork = net.last_;
    net.forked_ = true;
    shortcut(net);
    const int skip = std::exchange(net.last_, fork);
    net.forked_ = true;
    main(net);
    require(net.at(skip) == net.output(), Exit::model,
            "model {}: the two paths of {} have different shapes: {}x{}x{} and {}x{}x{}", net.name_, net.prefix_,
            net.at(skip).h, net.at(skip).w, net.at(skip).c, net.output().h, net.output().w, net.output().c);
    const bool fused = net.last_ != fork && net.layers_[net.last_].kind == Kind::batch_norm;
    if (fused) net.layers_[net.last_].skip = skip;
    if (fused && skip != fork && net.ends_in_bias(skip)) net.layers_[skip].bias_gradient = BiasGradient::norm;
    net.named("add").add(
        {.kind = Kind::add, .skip = fused ? LayerSpec::kNone : skip, .output = net.output(), .view = fused}, "add");
    net.named("relu").relu();
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
    return l.kind == Kind::relu || (l.kind == Kind::conv2d && l.window.padding.none()) ||
           (l.kind == Kind::pool2d && l.pool == Pool2dDesc::Kind::average);
  };
  auto end = trimmed.begin();
  while (end != trimmed.end() && trims(*end) && readers[end->from + 1] == 1) ++end;
  if (end == trimmed.begin()) return *this;
  ImageShape needed = std::prev(end)->output;
  for (auto layer = std::make_reverse_iterator(end); layer != trimmed.rend(); ++layer) {
    layer->output.h = needed.h;
    layer->output.w = needed.w;
    if (layer->kind != Kind::relu) {
      needed.h = (needed.h - 1) * layer->window.stride + layer->window.kernel;
      needed.w = (needed.w - 1) * layer->window.stride + layer->window.kernel;
    }
    layer->input.h = needed.h;
    layer->input.w = needed.w;
  }
  return {*this, std::move(trimmed)};
}

}  // namespace ddp
