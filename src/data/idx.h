// Reads labelled images from a pair of IDX files, the format of MNIST, gzipped or not. Whatever is wrong with a file
// throws Error(Exit::data) and names the file: missing, unreadable, of another kind, truncated, too long, corrupt, or
// not fitting the other one. Memory grows with what is there, not with what a header claims.
#pragma once

#include "data/dataset.h"

#include <filesystem>
#include <istream>
#include <memory>
#include <string>

namespace ddp {

std::unique_ptr<Dataset> read_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                                  int classes);

// The same from streams, which need not be files.
struct IdxFile {
  std::string name;  // for messages
  std::istream& bytes;
};
std::unique_ptr<Dataset> read_idx(const IdxFile& images, const IdxFile& labels, int classes);

}  // namespace ddp
