#include "nn/torchvision_resnet.h"

#include <fmt/format.h>

namespace ddp {
namespace {

void conv_norm(Network& net, const char* conv, const char* norm, int64_t channels, int64_t kernel, int64_t stride = 1) {
  net.named(conv).conv2d(channels, kernel, {.stride = stride, .padding = kernel / 2, .bias = false});
  net.named(norm).batch_norm();
}

void stage(Network& net, int64_t width, int64_t expansion, int blocks, int64_t first_stride) {
  for (int i = 0; i < blocks; ++i) {
    const int64_t stride = i == 0 ? first_stride : 1;
    const bool project = stride != 1 || net.output().c != width * expansion;
    net.residual(
        [&](Network& main) {
          if (expansion == 1) {
            conv_norm(main, "conv1", "bn1", width, 3, stride);
            conv_norm(main.relu(), "conv2", "bn2", width, 3);
          } else {
            conv_norm(main, "conv1", "bn1", width, 1);
            conv_norm(main.relu(), "conv2", "bn2", width, 3, stride);
            conv_norm(main.relu(), "conv3", "bn3", width * expansion, 1);
          }
        },
        [&](Network& shortcut) {
          if (!project) return;
          shortcut.named("downsample").block([&](Network& both) {
            conv_norm(both, "0", "1", width * expansion, 1, stride);
          });
        });
  }
}

}  // namespace

Network torchvision_resnet(const char* name, ImageShape image, int64_t classes, int64_t expansion,
                           const std::array<int, 4>& blocks) {
  Network net(name, image);
  conv_norm(net, "conv1", "bn1", 64, 7, 2);
  net.relu().max_pool2d(3, 2, 1);
  for (int s = 0; s < 4; ++s)
    net.named(fmt::format("layer{}", s + 1)).block([&](Network& layers) {
      stage(layers, 64 << s, expansion, blocks[s], s == 0 ? 1 : 2);
    });
  return net.global_avg_pool().flatten().named("fc").linear(classes);
}

}  // namespace ddp
