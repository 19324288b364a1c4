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
  DDP_EXPECT(layer.kind == Kind::conv2d || layer.kind == Kind::linear || layer.kind == Kind::embedding ||
             layer.kind == Kind::position_embedding);
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

int Network::unread_layer() const {
  const auto last = readers_.empty() ? readers_.end() : std::prev(readers_.end());
  const auto unread = std::find(readers_.begin(), last, 0);
  return unread == last ? -1 : static_cast<int>(unread - readers_.begin());
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

bool Network::reads_tokens() const { return !layers_.empty() && layers_.front().kind == Kind::embedding; }

bool Network::prefers_dense() const {
  return std::ranges::any_of(layers_, [](const LayerSpec& l) {
    switch (l.kind) {
      case Kind::conv2d: return l.groups > 1 || l.window.dilation > 1;
      case Kind::linear: return l.input.h * l.input.w > 1;
      case Kind::layer_norm:
      case Kind::group_norm:
      case Kind::attention:
      case Kind::embedding:
      case Kind::class_token:
      case Kind::position_embedding:
      case Kind::first_token: return true;
      default: return false;
    }
  });
}

}  // namespace ddp
