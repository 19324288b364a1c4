#include "nn/torchvision_resnet.h"

namespace ddp {

Network torchvision_resnet50(ImageShape image, int64_t classes) {
  return torchvision_resnet("torchvision-resnet50", image, classes, 4, {3, 4, 6, 3});
}

}  // namespace ddp
