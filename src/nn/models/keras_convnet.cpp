// The convnet of the Keras guide "Multi-GPU distributed training with PyTorch". It has 49,242 parameters on 28 x 28 x 1
// images.
#include "nn/network.h"

namespace ddp {

Network keras_convnet(ImageShape image, int64_t classes) {
  const BatchNormOptions keras{.epsilon = 1e-3f, .momentum = 0.01f, .scale = false, .unbiased = false};
  return Network("keras-convnet", image)
      .conv2d(12, 3, {.same = true, .bias = false})
      .batch_norm(keras)
      .relu()
      .conv2d(24, 6, {.stride = 2, .bias = false})
      .batch_norm(keras)
      .relu()
      .conv2d(32, 6, {.stride = 2, .same = true})
      .batch_norm(keras)
      .relu()
      .global_avg_pool()
      .flatten()
      .linear(256)
      .relu()
      .dropout(0.5)
      .linear(classes);
}

}  // namespace ddp
