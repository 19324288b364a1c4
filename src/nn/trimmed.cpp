#include "nn/network.h"

#include <iterator>
#include <utility>

namespace ddp {

// Walks from the last leading layer that can be trimmed back to the image. A padded convolution depends on where its
// input ends, so it keeps its extents, and so do all layers after it; likewise a value that two layers read.
Network Network::trimmed() const {
  std::vector<LayerSpec> trimmed = layers_;
  std::vector<int> readers(trimmed.size() + 1, 0);  // number of readers of the image, then of each layer
  for (const LayerSpec& l : trimmed)
    for (const int read : {l.from, l.skip})
      if (read != LayerSpec::kNone) ++readers[read + 1];

  const auto trims = [](const LayerSpec& l) {
    return l.kind == LayerSpec::Kind::activation || (l.kind == LayerSpec::Kind::conv2d && l.window.padding.none()) ||
           (l.kind == LayerSpec::Kind::pool2d && l.pool == Pool2dDesc::Kind::average);
  };
  auto end = trimmed.begin();
  while (end != trimmed.end() && trims(*end) && readers[end->from + 1] == 1) ++end;
  if (end == trimmed.begin()) return *this;
  ImageShape needed = std::prev(end)->output;
  for (auto layer = std::make_reverse_iterator(end); layer != trimmed.rend(); ++layer) {
    layer->output.h = needed.h;
    layer->output.w = needed.w;
    if (layer->kind != LayerSpec::Kind::activation) {
      needed.h = (needed.h - 1) * layer->window.stride + layer->window.extent();
      needed.w = (needed.w - 1) * layer->window.stride + layer->window.extent();
    }
    layer->input.h = needed.h;
    layer->input.w = needed.w;
  }
  return {*this, std::move(trimmed)};
}

}  // namespace ddp
