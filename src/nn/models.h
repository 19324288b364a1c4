// The networks that --model knows. A new one is one new file in models/ and one line in each of the two lists.
#pragma once

#include "nn/network.h"

namespace ddp {

Network lenet(ImageShape image, int64_t classes);

}  // namespace ddp
