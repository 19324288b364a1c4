// Reads labelled images from a pair of IDX files (the format of MNIST), gzipped or not. Throws Error(Exit::data) with
// the name of the file if the file is missing, unreadable, of another kind, truncated, too long or corrupt, or if the
// two files do not match. Memory grows with the data in the file, not with the size that the header claims. A header
// that claims more than `most_bytes` is refused at once: a small gzip file may be unpacked to a thousand times its
// size.
#pragma once

#include "data/dataset.h"

#include <cstdint>
#include <filesystem>
#include <istream>
#include <memory>
#include <string>

namespace ddp {

std::unique_ptr<Dataset> read_idx(const std::filesystem::path& images, const std::filesystem::path& labels, int classes,
                                  int64_t most_bytes = INT64_MAX);

// As above, from any streams.
struct IdxFile {
  std::string name;  // for messages
  std::istream& bytes;
};
std::unique_ptr<Dataset> read_idx(const IdxFile& images, const IdxFile& labels, int classes,
                                  int64_t most_bytes = INT64_MAX);

}  // namespace ddp
