#include "nn/parameters.h"

#include "core/error.h"

namespace ddp {
namespace {

int64_t round_up(int64_t elements) {
  constexpr int64_t kAlign = 64 / sizeof(float);
  return (elements + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

int64_t Parameter::pytorch_index(int64_t dense) const {
  if (bias) return dense;
  const int64_t c = dense % in.c, w = dense / in.c % in.w, h = dense / in.c / in.w % in.h;
  const int64_t o = dense / in.elements();
  return ((o * in.c + c) * in.h + h) * in.w + w;
}

std::vector<Parameter> parameters_of(const Network& network) {
  std::vector<Parameter> parameters;
  int64_t offset = 0;
  const auto add = [&](Parameter p) {
    p.offset = offset;
    offset = round_up(offset + p.count);
    parameters.push_back(std::move(p));
  };
  for (int i = static_cast<int>(network.layers().size()) - 1; i >= 0; --i) {
    const LayerSpec& spec = network.layers()[i];
    const bool conv = spec.kind == LayerSpec::Kind::conv2d;
    if (!conv && spec.kind != LayerSpec::Kind::linear) continue;
    const int64_t out = spec.output.c;
    const ImageShape in = conv ? ImageShape{spec.window.kernel, spec.window.kernel, spec.input.c} : spec.flattened;
    const int64_t fan_in = in.elements();
    std::vector<int64_t> shape = conv ? std::vector{out, in.c, in.h, in.w} : std::vector{out, fan_in};
    add({.name = fmt::format("{}.weight", i),
         .layer = i,
         .bias = false,
         .out = out,
         .in = in,
         .count = out * fan_in,
         .fan_in = fan_in,
         .pytorch_shape = std::move(shape)});
    add({.name = fmt::format("{}.bias", i),
         .layer = i,
         .bias = true,
         .out = out,
         .in = {},
         .count = out,
         .fan_in = fan_in,
         .pytorch_shape = {out}});
  }
  return parameters;
}

int64_t total_count(std::span<const Parameter> parameters) {
  int64_t count = 0;
  for (const Parameter& p : parameters) count += p.count;
  return count;
}

int64_t flat_count(std::span<const Parameter> parameters) {
  return parameters.empty() ? 0 : round_up(parameters.back().offset + parameters.back().count);
}

std::vector<float> to_pytorch(const Parameter& p, std::span<const float> flat) {
  std::vector<float> tensor(p.count);
  for (int64_t i = 0; i < p.count; ++i) tensor[p.pytorch_index(i)] = flat[p.offset + i];
  return tensor;
}

void from_pytorch(const Parameter& p, std::span<const float> tensor, std::span<float> flat) {
  DDP_EXPECT(static_cast<int64_t>(tensor.size()) == p.count);
  for (int64_t i = 0; i < p.count; ++i) flat[p.offset + i] = tensor[p.pytorch_index(i)];
}

}  // namespace ddp
