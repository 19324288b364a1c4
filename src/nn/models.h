// The networks that --model accepts: one file each in models/. To add a network, add a file that has the name of its
// function: models/my_net.cpp defines Network my_net(ImageShape image, int64_t classes), and --model my-net selects it.
#pragma once

#include "nn/network.h"

#include <span>
#include <string_view>

namespace ddp {

struct NamedModel {
  const char* name;
  Network (*make)(ImageShape image, int64_t classes);
};

std::span<const NamedModel> models();  // sorted by name

// Throws Error(Exit::usage), with a list of the names, for an unknown name, and Error(Exit::model) if the images do not
// fit the network.
Network make_model(std::string_view name, ImageShape image, int64_t classes);

}  // namespace ddp
