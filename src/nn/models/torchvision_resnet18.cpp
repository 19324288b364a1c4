#include "nn/torchvision_resnet.h"

namespace ddp {

Network torchvision_resnet18(ImageShape image, int64_t classes) {
  return torchvision_resnet("torchvision-resnet18", image, classes, 1, {2, 2, 2, 2});
}

}  // namespace ddp
