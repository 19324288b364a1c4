// LeNet as in Dive into Deep Learning, "Training on Multiple GPUs": 129,068 parameters on 28 x 28 x 1 images.
#include "nn/network.h"

namespace ddp {

Network lenet(ImageShape image, int64_t classes) {
  return Network("lenet", image)
      .conv2d(20, 3)
      .relu()
      .avg_pool2d(2)
      .conv2d(50, 5)
      .relu()
      .avg_pool2d(2)
      .flatten()
      .linear(128)
      .relu()
      .linear(classes);
}

}  // namespace ddp
