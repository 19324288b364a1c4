// A folder with the first images of Fashion-MNIST, for tests that would take long on the full dataset.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace ddp::testing {

// Copies the header and the first `count` items of a gzipped IDX file. An item has `bytes` bytes.
inline void copy_first(const std::filesystem::path& to, const std::string& name, uint32_t count, size_t header,
                       size_t bytes) {
  const std::string from = "/usr/share/datasets/fashion-mnist/" + name + ".gz";
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(from.c_str(), "rb"), gzclose);
  ASSERT_TRUE(file) << from;
  std::vector<char> content(header + count * bytes);
  ASSERT_EQ(gzread(file.get(), content.data(), static_cast<unsigned>(content.size())),
            static_cast<int>(content.size()));
  for (int i = 0; i < 4; ++i) content[4 + i] = static_cast<char>(count >> (24 - 8 * i));  // big-endian
  std::ofstream(to / name, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

inline void few_images(const std::filesystem::path& folder, uint32_t training, uint32_t test) {
  std::filesystem::create_directories(folder);
  copy_first(folder, "train-images-idx3-ubyte", training, 16, 784);
  copy_first(folder, "train-labels-idx1-ubyte", training, 8, 1);
  copy_first(folder, "t10k-images-idx3-ubyte", test, 16, 784);
  copy_first(folder, "t10k-labels-idx1-ubyte", test, 8, 1);
}

}  // namespace ddp::testing
