#include "nn/parameters.h"

#include "core/error.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

namespace ddp {
namespace {

using Kind = LayerSpec::Kind;

constexpr int64_t kAlign = 64 / sizeof(float);

int64_t round_up(int64_t elements, int64_t multiple) { return (elements + multiple - 1) / multiple * multiple; }

// Of a conv2d: the kernel and the input channels of a group; of a linear layer: the image that its input was.
ImageShape weight_input(const LayerSpec& spec) {
  if (spec.kind == Kind::linear) return spec.flattened;
  return {spec.window.kernel, spec.window.kernel, spec.input.c / spec.groups};
}

// The parameters of one layer, without offsets.
std::vector<Parameter> parameters_of_layer(const LayerSpec& spec, int layer) {
  const int64_t out = spec.output.c;
  const auto vector = [&](const char* suffix, Parameter::Role role, int64_t fan_in, int64_t fan_out) {
    return Parameter{.name = spec.name + suffix,
                     .layer = layer,
                     .role = role,
                     .trained = is_weight(role) ? spec.trains_weight : spec.trains_bias,
                     .out = out,
                     .in = {},
                     .count = out,
                     .fan_in = fan_in,
                     .fan_out = fan_out,
                     .pytorch_shape = {out}};
  };
  if (spec.kind == Kind::batch_norm || spec.kind == Kind::layer_norm || spec.kind == Kind::group_norm) {
    std::vector<Parameter> both;
    if (spec.norm.scale) both.push_back(vector(".weight", Parameter::Role::norm_scale, 1, 1));
    both.push_back(vector(".bias", Parameter::Role::norm_shift, 1, 1));
    return both;
  }
  // A tensor that has the name of its layer.
  const auto tensor = [&](Parameter::Role role, std::vector<int64_t> shape) {
    Parameter p = vector("", role, 1, 1);
    p.count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies{});
    p.pytorch_shape = std::move(shape);
    p.initial = spec.initial;
    return std::vector{std::move(p)};
  };
  if (spec.kind == Kind::layer_scale) return tensor(Parameter::Role::layer_scale, {out, 1, 1});
  if (spec.kind == Kind::class_token) return tensor(Parameter::Role::class_token, {1, 1, out});
  if (spec.kind == Kind::position_embedding) {
    const int64_t tokens = spec.output.h * spec.output.w;
    std::vector<Parameter> table =
        tensor(Parameter::Role::position_embedding,
               spec.rows > 0 ? std::vector{spec.rows, out} : std::vector{int64_t{1}, tokens, out});
    if (spec.rows > 0) table.front().name += ".weight";
    table.front().init = spec.weight_init;
    return table;
  }
  if (spec.kind == Kind::embedding) {
    Parameter table = vector(".weight", Parameter::Role::weight, spec.rows, out);
    table.out = spec.rows;
    table.in = {1, 1, out};
    table.count = spec.rows * out;
    table.pytorch_shape = {spec.rows, out};
    table.init = spec.weight_init;
    table.tied = spec.is_tied;
    return {std::move(table)};
  }

  const bool conv = spec.kind == Kind::conv2d;
  if (!conv && spec.kind != Kind::linear) return {};
  const ImageShape in = weight_input(spec);
  const int64_t fan_in = in.elements(), fan_out = static_cast<int64_t>(fans_of(spec).out);
  const std::string separator = spec.joined_names ? "_" : ".";
  Parameter weight = vector((separator + "weight").c_str(), Parameter::Role::weight, fan_in, fan_out);
  weight.in = in;
  weight.count = out * fan_in;
  weight.pytorch_shape = conv ? std::vector{out, in.c, in.h, in.w} : std::vector{out, fan_in};
  weight.init = spec.weight_init;
  if (spec.transposed) {
    weight.transposed = true;
    weight.pytorch_shape = {fan_in, out};
  }
  std::vector<Parameter> both;
  if (spec.tied == LayerSpec::kNone) both.push_back(std::move(weight));
  if (spec.bias) {
    both.push_back(vector((separator + "bias").c_str(), Parameter::Role::bias, fan_in, fan_out));
    both.back().bias_gradient = spec.bias_gradient;
    both.back().init = spec.bias_init;
  }
  return both;
}

}  // namespace

int64_t Parameter::pytorch_index(int64_t dense) const {
  if (role != Role::weight) return dense;
  if (transposed) return dense % in.c * out + dense / in.c;
  const int64_t c = dense % in.c, w = dense / in.c % in.w, h = dense / in.c / in.w % in.h;
  const int64_t o = dense / in.elements();
  return ((o * in.c + c) * in.h + h) * in.w + w;
}

Fans fans_of(const LayerSpec& spec) {
  const ImageShape in = weight_input(spec);
  const double positions = static_cast<double>(in.h) * static_cast<double>(in.w);
  const auto out = static_cast<double>(spec.output.c);
  return {positions * static_cast<double>(in.c), spec.kind == Kind::conv2d ? positions * out : out};
}

std::vector<Parameter> parameters_of(const Network& network, int64_t multiple) {
  std::vector<Parameter> parameters;
  for (int i = static_cast<int>(network.layers().size()) - 1; i >= 0; --i)
    std::ranges::move(parameters_of_layer(network.layers()[i], i), std::back_inserter(parameters));
  std::ranges::stable_partition(parameters, std::identity{}, &Parameter::trained);
  int64_t offset = 0;
  for (Parameter& p : parameters) {
    p.offset = offset;
    offset = round_up(offset + p.count, std::lcm(kAlign, multiple));
  }
  return parameters;
}

int head_layer(std::span<const Parameter> parameters) {
  int layer = -1;
  if (std::ranges::any_of(parameters, &Parameter::tied)) return layer;
  for (const Parameter& p : parameters)
    if (p.pytorch_shape.size() == 2) layer = std::max(layer, p.layer);
  return layer;
}

std::vector<int> ids_of_layer(std::span<const Parameter> parameters, int layer) {
  std::vector<int> ids;
  for (size_t id = 0; id < parameters.size(); ++id)
    if (parameters[id].layer == layer && parameters[id].trained) ids.push_back(static_cast<int>(id));
  return ids;
}

const Parameter* find_parameter(std::span<const Parameter> parameters, int layer, Parameter::Role role) {
  const auto found =
      std::ranges::find_if(parameters, [&](const Parameter& p) { return p.layer == layer && p.role == role; });
  return found == parameters.end() ? nullptr : &*found;
}

std::span<const Parameter> trained_of(std::span<const Parameter> parameters) {
  return parameters.first(std::ranges::find(parameters, false, &Parameter::trained) - parameters.begin());
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
  for (int i = 0; i < static_cast<int>(network.layers().size()); ++i) {
    const LayerSpec& spec = network.layers()[i];
    if (spec.kind != LayerSpec::Kind::batch_norm) continue;
    const auto& [h, w, c] = spec.input;
    batch_norms.push_back({.layer_name = spec.name,
                           .layer = i,
                           .span = {.channels = c,
                                    .positions = static_cast<float>(h * w),
                                    .momentum = spec.norm.momentum,
                                    .unbiased = spec.norm.unbiased},
                           .scale = spec.norm.scale,
                           .trained = !spec.is_frozen_norm()});
  }
  int64_t offset = 0;
  for (const bool trained : {true, false})
    for (BatchNormState& norm : batch_norms)
      if (norm.trained == trained) norm.span.offset = std::exchange(offset, offset + 2 * norm.span.channels);
  return batch_norms;
}

int64_t state_count(std::span<const BatchNormState> batch_norms) {
  int64_t count = 0;
  for (const BatchNormState& norm : batch_norms) count += 2 * norm.span.channels;
  return count;
}

int64_t trained_state_count(std::span<const BatchNormState> batch_norms) {
  int64_t count = 0;
  for (const BatchNormState& norm : batch_norms) count += norm.trained ? 2 * norm.span.channels : 0;
  return count;
}

std::vector<float> initial_state(std::span<const BatchNormState> batch_norms) {
  std::vector<float> state(state_count(batch_norms), 0.0f);
  for (const BatchNormState& norm : batch_norms)
    std::fill_n(state.begin() + norm.span.offset + norm.span.channels, norm.span.channels, 1.0f);
  return state;
}

}  // namespace ddp
