// Reads the NPY files of ddp_train show.
#pragma once

#include "tests/system/cli/program.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace ddp::testing {

// The elements of a file of one array. Checks its header.
template <class T>
std::vector<T> read_npy(const std::filesystem::path& path, const std::string& type, const std::string& shape) {
  const std::string file = read_file(path);
  if (file.size() < 10) return {};
  const size_t length = static_cast<uint8_t>(file[8]) + size_t{256} * static_cast<uint8_t>(file[9]);
  EXPECT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\0", 8));
  EXPECT_EQ((10 + length) % 64, 0u);
  const std::string header = file.substr(10, length), data = file.substr(std::min(10 + length, file.size()));
  const std::string start = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  EXPECT_TRUE(header.starts_with(start) && header.ends_with('\n')) << header;
  std::vector<T> values(data.size() / sizeof(T));
  std::memcpy(values.data(), data.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace ddp::testing
