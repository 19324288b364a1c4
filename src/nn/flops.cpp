#include "nn/flops.h"

#include <cstdint>

namespace ddp {

double forward_flops(const LayerSpec& layer) {
  using Kind = LayerSpec::Kind;
  const auto outputs = static_cast<double>(layer.output.elements());
  const auto of_each = [&](int64_t multiply_adds) { return 2 * outputs * static_cast<double>(multiply_adds); };
  const ImageShape& in = layer.input;
  switch (layer.kind) {
    case Kind::conv2d: return of_each(layer.window.kernel * layer.window.kernel * (in.c / layer.groups));
    case Kind::linear: return of_each(in.c);
    case Kind::attention: return of_each(2 * in.h);
    default: return 0;
  }
}

double forward_flops(const Network& network) {
  double sum = 0;
  for (const LayerSpec& layer : network.layers()) sum += forward_flops(layer);
  return sum;
}

}  // namespace ddp
