#include "app/commands/predict/next_token.h"

#include "app/inputs/model_source.h"
#include "core/error.h"
#include "device/cpu/device.h"
#include "nn/token_network.h"
#include "ops/cpu/ops.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ddp {
namespace {

Network network_of_length(const ModelInfo& info, int64_t length) {
  return network_of(info.source(), info.model + ".toml", {length, 1, 1}, info.classes);
}

// Whether the network has these parameters for any number of tokens. A text of the graph may name the height.
bool has_parameters(const ModelInfo& info, int64_t length, const std::vector<Parameter>& parameters) try {
  const auto same = [](const Parameter& a, const Parameter& b) {
    return a.name == b.name && a.offset == b.offset && a.pytorch_shape == b.pytorch_shape;
  };
  return std::ranges::equal(parameters_of(network_of_length(info, length)), parameters, same);
} catch (const Error&) {
  return false;
}

TrainedNetwork checked(TrainedNetwork trained, const std::string& weights) {
  require(is_causal(trained.network), Exit::model,
          "{}: in network {} a position reads later tokens, or a layer joins positions, so it cannot continue a text; "
          "use causal attention",
          weights, trained.network.name());
  require_memory(trained.network, 1, 1, weights);
  return trained;
}

}  // namespace

std::vector<int64_t> planned_lengths(int64_t longest) {
  std::vector<int64_t> lengths;
  for (int64_t length = 16; length < longest; length *= 2) lengths.push_back(length);
  lengths.push_back(longest);
  return lengths;
}

NextToken::NextToken(const ModelInfo& info, TrainedNetwork trained, int threads, const std::string& weights)
    : info_(info),
      trained_(checked(std::move(trained), weights)),
      longest_(info.sequence_length),
      vocabulary_(info.classes),
      device_(make_cpu_device()),
      ops_(make_cpu_ops(*device_, {.threads = threads})),
      weights_(*device_, bytes_of_floats(std::ssize(trained_.state.weights))),
      lengths_(planned_lengths(longest_)) {
  device_->upload(weights_.data(), trained_.state.weights.data(), weights_.bytes());
  trained_.state = {};
  if (!has_parameters(info_, lengths_.front(), trained_.parameters)) lengths_ = {longest_};
}

Model& NextToken::model_for(int64_t length) {
  const auto found = models_.find(length);
  if (found != models_.end()) return found->second;
  const int64_t batch = 1;
  ModelConfig config;
  config.inference = true;
  return models_
      .emplace(std::piecewise_construct, std::tuple(length),
               std::forward_as_tuple(network_of_length(info_, length), trained_.parameters, trained_.batch_norms,
                                     std::span(&batch, 1), *device_, *ops_,
                                     ModelMemory{.weights = weights_.as<float>()}, config))
      .first->second;
}

std::span<const float> NextToken::logits(std::span<const int32_t> text) {
  DDP_EXPECT(!text.empty());
  const std::span<const int32_t> read = text.last(std::min(text.size(), static_cast<size_t>(longest_)));
  const int64_t count = std::ssize(read), length = *std::ranges::lower_bound(lengths_, count);
  tokens_.assign(static_cast<size_t>(length) + 1, 0);
  std::ranges::copy(read, tokens_.begin());
  const Tensor all = model_for(length).logits(
      {.samples = reinterpret_cast<const uint8_t*>(tokens_.data()), .size = 1, .sequence_length = length}, nullptr);
  DDP_EXPECT(all.format == Format{} && all.dtype == DType::f32);
  return {all.f32() + (count - 1) * vocabulary_, static_cast<size_t>(vocabulary_)};
}

}  // namespace ddp
