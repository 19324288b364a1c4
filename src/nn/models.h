// The networks that --model knows. A new one is one new file in models/, a line here, one in app/factory.cpp and
// one in CMakeLists.txt.
#pragma once

#include "nn/network.h"

namespace ddp {

Network lenet(ImageShape image, int64_t classes);

}  // namespace ddp
