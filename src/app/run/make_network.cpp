#include "app/run/make_network.h"

#include "app/inputs/model_source.h"
#include "core/error.h"
#include "core/split.h"
#include "nn/freeze.h"
#include "nn/parameters.h"

#include <algorithm>
#include <initializer_list>

namespace ddp {

namespace {

Network frozen_model(const NetworkConfig& config, ImageShape image, int64_t classes) {
  const Network network = network_of(config.source, config.model, image, classes);
  return config.freeze.empty() ? network : freeze(network, split(config.freeze, ','));
}

// Whether the network fits one of these shapes, and reads tokens or images.
bool fits(const NetworkConfig& config, std::initializer_list<ImageShape> shapes, int64_t classes, bool tokens) {
  return std::ranges::any_of(shapes, [&](ImageShape shape) {
    try {
      return network_of(config.source, config.model, shape, classes).reads_tokens() == tokens;
    } catch (const Error&) {
      return false;
    }
  });
}

// The network of these data, or an error that says that it reads tokens, not images, or the reverse.
Network network_of_data(const NetworkConfig& config, const Dataset& data) {
  const bool tokens = data.sequence_length() > 0;
  const auto refuse = [&] {
    if (tokens)
      fail(Exit::usage,
           "--model {} reads images, but the data set holds tokens; give a network that reads tokens, such as gpt-tiny",
           config.model);
    fail(Exit::usage,
         "--model {} reads tokens, but the data set holds images; give --dataset tokens and --data-path with token "
         "files, or a network that reads images",
         config.model);
  };
  try {
    Network network = frozen_model(config, data.image_shape(), data.classes());
    if (network.reads_tokens() != tokens) refuse();
    return network;
  } catch (const Error& error) {
    if (error.code() != Exit::model) throw;
    if (tokens ? fits(config, {{224, 224, 3}, {32, 32, 3}}, data.classes(), false)
               : fits(config, {{1, 1, 1}}, data.classes(), true))
      refuse();
    throw;
  }
}

// A new head that is frozen would stay at random.
void require_trained_head(const Network& network) {
  const std::vector<Parameter> parameters = parameters_of(network);
  const int head = head_layer(parameters);
  require(head >= 0, Exit::usage, "--new-head: {} has no last linear layer with a weight of its own", network.name());
  for (const Parameter& p : parameters)
    require(p.trained || p.layer != head, Exit::usage,
            "--freeze keeps {}, which --new-head begins at random; leave it out of --freeze", p.name);
}

}  // namespace

Network make_network(const NetworkConfig& config, bool sync_bn, const Dataset& data) {
  Network network = network_of_data(config, data);
  if (config.new_head) require_trained_head(network);
  const bool asks_for_norms = sync_bn || config.recompute_bn;
  const auto norms = batch_norm_states_of(network);
  require(!asks_for_norms || trained_state_count(norms) > 0, Exit::usage, "--{}: {} has no batch norms{}",
          sync_bn ? "sync-bn" : "bn-stats", config.source.name, norms.empty() ? "" : " besides those of --freeze");
  return network;
}

std::optional<Network> network_for(const NetworkConfig& config, const Network& network, ImageShape image,
                                   int64_t classes) {
  const ImageShape& trained = network.input();
  if (image == trained) return std::nullopt;
  Network other = frozen_model(config, image, classes);
  const auto same = [](const Parameter& a, const Parameter& b) {
    return a.name == b.name && a.in == b.in && a.pytorch_shape == b.pytorch_shape;
  };
  require(std::ranges::equal(parameters_of(network), parameters_of(other), same), Exit::usage,
          "--val-crop-size {} differs from the crop of training, {}: {} has other weights for images of that size; use "
          "a network with global average pooling, such as resnet18",
          image.h, trained.h, config.source.name);
  return other;
}

}  // namespace ddp
