#include "nn/layer_work.h"

#include "nn/flops.h"

namespace ddp {
namespace {

PassWork pass_work(double flops, int64_t bytes) { return {flops, static_cast<double>(bytes)}; }

int64_t saved_bytes(const PlannedLayer& p) { return (p.saves_x ? p.x : 0) + (p.saves_y ? p.y : 0); }

}  // namespace

LayerWork layer_work(const LayerSpec& spec, const PlannedLayer& p, const ParameterBytes& parameters, bool apart,
                     int64_t samples) {
  const double product = forward_flops(spec) * static_cast<double>(samples);
  LayerWork work{.forward = pass_work(product, p.x + p.skip + parameters.weights + p.y)};
  if (p.dy == 0) return work;
  // Each product of an attention has two gradients, of its two inputs.
  const bool has_weight_gradient = spec.kind == LayerSpec::Kind::attention || spec.trains_weight;
  const double weights = has_weight_gradient ? product : 0, inputs = p.dx > 0 ? product : 0;
  const int64_t written = p.dx + p.dskip;
  if (!apart) {
    work.input_gradient =
        pass_work(weights + inputs, p.dy + saved_bytes(p) + parameters.weights + parameters.gradients + written);
    return work;
  }
  work.weight_gradient = pass_work(weights, p.dy + saved_bytes(p) + parameters.gradients);
  if (written > 0) work.input_gradient = pass_work(inputs, p.dy + parameters.weights + written);
  return work;
}

LayerWork copy_work(const PlannedLayer& p) {
  LayerWork work{.forward = pass_work(0, p.x + p.y)};
  if (p.dx > 0) work.input_gradient = pass_work(0, p.dy + p.dx);
  return work;
}

}  // namespace ddp
