// Reads labelled images from a pair of IDX files, the format of MNIST, gzipped or not. Whatever is wrong with a file
// throws Error(Exit::data) and names the file: missing, unreadable, of another kind, truncated, too long, corrupt, or
// not fitting the other one.
#pragma once

#include "data/dataset.h"

#include <filesystem>
#include <memory>

namespace ddp {

std::unique_ptr<Dataset> read_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                                  int classes);

}  // namespace ddp
