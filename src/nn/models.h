// The networks that stand in the program: one file each in models/, in the language of nn/model_file.h. To add one, add
// a file: models/my_net.toml is --model my_net.
#pragma once

#include "nn/model_file.h"
#include "nn/network.h"

#include <span>
#include <string_view>

namespace ddp {

std::span<const ModelFile> built_in_models();  // sorted by name

// Throws Error(Exit::usage), with a list of the names, for an unknown name, and Error(Exit::model) if the images do not
// fit the network.
Network make_model(std::string_view name, ImageShape image, int64_t classes);

}  // namespace ddp
