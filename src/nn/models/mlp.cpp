// A multilayer perceptron as in Dive into Deep Learning: one hidden layer of 256.
#include "nn/network.h"

namespace ddp {

Network mlp(ImageShape image, int64_t classes) {
  return Network("mlp", image).flatten().linear(256).relu().linear(classes);
}

}  // namespace ddp
