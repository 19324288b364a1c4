#include "ops/cpu/conv2d.h"

namespace ddp {

bool suits_dnnl(const Conv2dDesc& desc) {
  return desc.out_channels % 16 == 0 && (desc.input.c % 16 == 0 || desc.input.c < 4);
}

}  // namespace ddp
