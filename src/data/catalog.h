// The datasets that a run can select by name.
#pragma once

#include "data/dataset.h"

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace ddp {

// Opens "fashion-mnist" or "mnist" from the folder `path`. The folder has the four files under their usual names, with
// or without .gz. An empty path means the folder of Debian's Fashion-MNIST package. Throws Error(Exit::usage) for an
// unknown name and for "mnist" without a path. Throws Error(Exit::data) for broken files and for missing files; the
// text says how to get missing files. The data of one file may take `most_bytes` of memory.
Datasets open_datasets(std::string_view name, const std::filesystem::path& path, int64_t most_bytes = INT64_MAX);

}  // namespace ddp
