// The networks that --model knows: the files of models/. A new one is one new file there, whose name is that of its
// function, with - for _ in the option: models/my_net.cpp has Network my_net(ImageShape image, int64_t classes).
#pragma once

#include "nn/network.h"

#include <span>
#include <string_view>

namespace ddp {

struct NamedModel {
  const char* name;
  Network (*make)(ImageShape image, int64_t classes);
};

std::span<const NamedModel> models();  // by name

// Throws Error(Exit::usage), with the names there are, for another, Error(Exit::model) where the images do not fit.
Network make_model(std::string_view name, ImageShape image, int64_t classes);

}  // namespace ddp
