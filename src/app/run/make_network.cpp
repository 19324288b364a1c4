#include "app/run/make_network.h"

#include "core/error.h"
#include "nn/models.h"
#include "nn/parameters.h"

#include <algorithm>

namespace ddp {

Network make_network(const NetworkConfig& config, bool sync_bn, const Dataset& data) {
  Network network = make_model(config.name, data.image_shape(), data.classes());
  const bool asks_for_norms = sync_bn || config.recompute_bn;
  require(!asks_for_norms || !batch_norm_states_of(network).empty(), Exit::usage, "--{}: {} has no batch norms",
          sync_bn ? "sync-bn" : "bn-stats", config.name);
  return network;
}

std::optional<Network> network_for(const NetworkConfig& config, const Network& network, ImageShape image,
                                   int64_t classes) {
  const ImageShape& trained = network.input();
  if (image == trained) return std::nullopt;
  Network other = make_model(config.name, image, classes);
  const auto same = [](const Parameter& a, const Parameter& b) {
    return a.name == b.name && a.in == b.in && a.pytorch_shape == b.pytorch_shape;
  };
  require(std::ranges::equal(parameters_of(network), parameters_of(other), same), Exit::usage,
          "--val-crop-size {} differs from the crop of training, {}: {} has other weights for images of that size; use "
          "a network with global average pooling, such as resnet18",
          image.h, trained.h, config.name);
  return other;
}

}  // namespace ddp
