// The ResNet-18 of Dive into Deep Learning, "Concise Implementation for Multiple GPUs". Unlike He et al. (2015), it has
// a 3 x 3 stem, no max pooling, and biases in its convolutions. 11,175,818 parameters on 28 x 28 x 1 images.
#include "nn/network.h"

#include <fmt/format.h>

namespace ddp {
namespace {

void residual(Network& net, int64_t channels, int64_t stride, bool project) {
  net.residual(
      [&](Network& main) {
        main.named("conv1").conv2d(channels, 3, {.stride = stride, .padding = 1}).named("bn1").batch_norm().relu();
        main.named("conv2").conv2d(channels, 3, {.padding = 1}).named("bn2").batch_norm();
      },
      [&](Network& shortcut) {
        if (project) shortcut.named("conv3").conv2d(channels, 1, {.stride = stride});
      });
}

}  // namespace

Network resnet18(ImageShape image, int64_t classes) {
  Network net("resnet18", image);
  net.conv2d(64, 3, {.padding = 1}).batch_norm().relu();
  for (const int stage : {1, 2, 3, 4}) {
    const bool first = stage == 1;
    net.named(fmt::format("resnet_block{}", stage)).block([&](Network& blocks) {
      residual(blocks, 32 << stage, first ? 1 : 2, !first);
      residual(blocks, 32 << stage, 1, false);
    });
  }
  net.global_avg_pool();
  return net.named("fc").block([&](Network& head) { head.flatten().linear(classes); });
}

}  // namespace ddp
