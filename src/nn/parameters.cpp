#include "nn/parameters.h"

#include "core/error.h"

#include <algorithm>
#include <numeric>

namespace ddp {
namespace {

using Kind = LayerSpec::Kind;

constexpr int64_t kAlign = 64 / sizeof(float);

int64_t round_up(int64_t elements, int64_t multiple) { return (elements + multiple - 1) / multiple * multiple; }

// The parameters of one layer, without offsets.
std::vector<Parameter> parameters_of_layer(const LayerSpec& spec, int layer) {
  const int64_t out = spec.output.c;
  const auto vector = [&](const char* suffix, Parameter::Role role, int64_t fan_in, int64_t fan_out) {
    return Parameter{.name = spec.name + suffix,
                     .layer = layer,
                     .role = role,
                     .out = out,
                     .in = {},
                     .count = out,
                     .fan_in = fan_in,
                     .fan_out = fan_out,
                     .pytorch_shape = {out}};
  };
  if (spec.kind == Kind::batch_norm) {
    std::vector<Parameter> both;
    if (spec.norm.scale) both.push_back(vector(".weight", Parameter::Role::norm_scale, 1, 1));
    both.push_back(vector(".bias", Parameter::Role::norm_shift, 1, 1));
    return both;
  }
  const bool conv = spec.kind == Kind::conv2d;
  if (!conv && spec.kind != Kind::linear) return {};
  const ImageShape in = conv ? ImageShape{spec.window.kernel, spec.window.kernel, spec.input.c} : spec.flattened;
  const int64_t fan_in = in.elements(), fan_out = conv ? in.h * in.w * out : out;
  Parameter weight = vector(".weight", Parameter::Role::weight, fan_in, fan_out);
  weight.in = in;
  weight.count = out * fan_in;
  weight.pytorch_shape = conv ? std::vector{out, in.c, in.h, in.w} : std::vector{out, fan_in};
  std::vector<Parameter> both{std::move(weight)};
  if (spec.bias) {
    both.push_back(vector(".bias", Parameter::Role::bias, fan_in, fan_out));
    both.back().bias_gradient = spec.bias_gradient;
  }
  return both;
}

}  // namespace

int64_t Parameter::pytorch_index(int64_t dense) const {
  if (role != Role::weight) return dense;
  const int64_t c = dense % in.c, w = dense / in.c % in.w, h = dense / in.c / in.w % in.h;
  const int64_t o = dense / in.elements();
  return ((o * in.c + c) * in.h + h) * in.w + w;
}

std::vector<Parameter> parameters_of(const Network& network, int64_t multiple) {
  std::vector<Parameter> parameters;
  int64_t offset = 0;
  for (int i = static_cast<int>(network.layers().size()) - 1; i >= 0; --i)
    for (Parameter& p : parameters_of_layer(network.layers()[i], i)) {
      p.offset = offset;
      offset = round_up(offset + p.count, std::lcm(kAlign, multiple));
      parameters.push_back(std::move(p));
    }
  return parameters;
}

std::vector<int> ids_of_layer(std::span<const Parameter> parameters, int layer) {
  std::vector<int> ids;
  for (size_t id = 0; id < parameters.size(); ++id)
    if (parameters[id].layer == layer) ids.push_back(static_cast<int>(id));
  return ids;
}

int64_t total_count(std::span<const Parameter> parameters) {
  int64_t count = 0;
  for (const Parameter& p : parameters) count += p.count;
  return count;
}

int64_t flat_count(std::span<const Parameter> parameters, int64_t multiple) {
  if (parameters.empty()) return 0;
  return round_up(parameters.back().offset + parameters.back().count, std::lcm(kAlign, multiple));
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

std::vector<BatchNormState> batch_norm_states_of(const Network& network) {
  std::vector<BatchNormState> batch_norms;
  int64_t offset = 0;
  for (int i = 0; i < static_cast<int>(network.layers().size()); ++i) {
    const LayerSpec& spec = network.layers()[i];
    if (spec.kind != LayerSpec::Kind::batch_norm) continue;
    const auto& [h, w, c] = spec.input;
    batch_norms.push_back({.layer_name = spec.name,
                           .layer = i,
                           .span = {.offset = offset,
                                    .channels = c,
                                    .positions = static_cast<float>(h * w),
                                    .momentum = spec.norm.momentum,
                                    .unbiased = spec.norm.unbiased},
                           .scale = spec.norm.scale});
    offset += 2 * c;
  }
  return batch_norms;
}

int64_t state_count(std::span<const BatchNormState> batch_norms) {
  return batch_norms.empty() ? 0 : batch_norms.back().span.offset + 2 * batch_norms.back().span.channels;
}

std::vector<float> initial_state(std::span<const BatchNormState> batch_norms) {
  std::vector<float> state(state_count(batch_norms), 0.0f);
  for (const auto& [name, layer, span, scale] : batch_norms)
    std::fill_n(state.begin() + span.offset + span.channels, span.channels, 1.0f);
  return state;
}

}  // namespace ddp
