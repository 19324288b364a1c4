// The datasets that a run can name.
#pragma once

#include "data/dataset.h"

#include <filesystem>
#include <string_view>

namespace ddp {

// Opens "fashion-mnist" or "mnist" from the folder `path`, which holds the four files under their usual names, with or
// without .gz. An empty path means where Debian's package puts Fashion-MNIST. Throws Error(Exit::usage) for another
// name, or where MNIST comes without a path, and Error(Exit::data) where files are missing (saying how to get them) or
// broken.
Datasets open_datasets(std::string_view name, const std::filesystem::path& path);

}  // namespace ddp
