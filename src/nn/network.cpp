#include "nn/network.h"

#include "core/error.h"
#include "ops/pool2d.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ddp {

const char* name_of(LayerSpec::Kind kind) {
  switch (kind) {
    case LayerSpec::Kind::conv2d: return "conv2d";
    case LayerSpec::Kind::relu: return "relu";
    case LayerSpec::Kind::avg_pool2d: return "avg_pool2d";
    case LayerSpec::Kind::flatten: return "flatten";
    case LayerSpec::Kind::linear: return "linear";
  }
  return "layer";
}

Network::Network(std::string name, ImageShape input) : name_(std::move(name)), input_(input) {}

void Network::add(LayerSpec layer, const std::string& what) {
  const auto& [h, w, c] = layer.output;
  require(
      h > 0 && w > 0 && c > 0, Exit::model,
      "model {} does not fit the data: layer {} ({}) cannot take its input of {}x{}x{}; the images are {}x{}x{}, use "
      "larger ones or another --model",
      name_, layers_.size(), what, layer.input.h, layer.input.w, layer.input.c, input_.h, input_.w, input_.c);
  layers_.push_back(layer);
}

Network& Network::conv2d(int64_t out_channels, int64_t kernel, int64_t stride, int64_t padding) {
  const Conv2dDesc desc{
      .input = output(), .input_format = {}, .out_channels = out_channels, .window = {kernel, stride, padding}};
  const bool fits = desc.input.h + 2 * padding >= kernel && desc.input.w + 2 * padding >= kernel;
  add({.kind = LayerSpec::Kind::conv2d,
       .input = desc.input,
       .output = fits ? conv2d_output(desc) : ImageShape{0, 0, 0},
       .window = desc.window},
      fmt::format("conv2d {}@{}x{}", out_channels, kernel, kernel));
  return *this;
}

Network& Network::relu() {
  const bool fused = !layers_.empty() &&
                     (layers_.back().kind == LayerSpec::Kind::conv2d || layers_.back().kind == LayerSpec::Kind::linear);
  if (fused) layers_.back().relu = true;
  add({.kind = LayerSpec::Kind::relu, .input = output(), .output = output(), .window = {}, .view = fused}, "relu");
  return *this;
}

Network& Network::avg_pool2d(int64_t kernel) {
  const AvgPool2dDesc desc{.input = output(), .format = {}, .kernel = kernel, .stride = kernel};
  const bool fits = desc.input.h >= kernel && desc.input.w >= kernel;
  add({.kind = LayerSpec::Kind::avg_pool2d,
       .input = desc.input,
       .output = fits ? avg_pool2d_output(desc) : ImageShape{0, 0, 0},
       .window = {kernel, kernel, 0}},
      fmt::format("average pool {}x{}", kernel, kernel));
  return *this;
}

Network& Network::flatten() {
  add({.kind = LayerSpec::Kind::flatten,
       .input = output(),
       .output = {1, 1, output().elements()},
       .window = {},
       .view = true},
      "flatten");
  return *this;
}

Network& Network::linear(int64_t out_features) {
  const ImageShape in = output();
  require(in.h == 1 && in.w == 1, Exit::model,
          "model {}: layer {} (linear) follows an image of {}x{}x{}; put flatten() before it", name_, layers_.size(),
          in.h, in.w, in.c);
  const bool flattened = !layers_.empty() && layers_.back().kind == LayerSpec::Kind::flatten;
  add({.kind = LayerSpec::Kind::linear,
       .input = in,
       .output = {1, 1, out_features},
       .window = {},
       .flattened = flattened ? layers_.back().input : in},
      fmt::format("linear {}", out_features));
  return *this;
}

// From the last of the leading layers that can be trimmed back to the image. Padding sees the border of what it pads,
// so a padded convolution, and with it all after it, keeps its extents.
std::vector<LayerSpec> Network::trimmed_layers() const {
  using Kind = LayerSpec::Kind;
  const auto trims = [](const LayerSpec& l) {
    return l.kind == Kind::relu || l.kind == Kind::avg_pool2d || (l.kind == Kind::conv2d && l.window.padding == 0);
  };
  std::vector<LayerSpec> trimmed = layers_;
  const auto end = std::find_if_not(trimmed.begin(), trimmed.end(), trims);
  if (end == trimmed.begin()) return trimmed;
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
  return trimmed;
}

}  // namespace ddp
