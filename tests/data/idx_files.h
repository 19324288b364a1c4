// Writes IDX files for tests into a temporary folder. The destructor removes the folder.
#pragma once

#include "tests/temp_folder.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

namespace ddp {

using Bytes = std::vector<uint8_t>;

inline Bytes idx_bytes(uint32_t magic, std::initializer_list<uint32_t> dimensions, const Bytes& data) {
  Bytes bytes;
  const auto put = [&](uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(value >> shift));
  };
  put(magic);
  for (uint32_t d : dimensions) put(d);
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

class IdxFolder : public TempFolder {
 public:
  std::filesystem::path plain(const std::string& name, const Bytes& bytes) const {
    std::ofstream(*this / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return *this / name;
  }
  std::filesystem::path gzipped(const std::string& name, const Bytes& bytes) const {
    gzFile file = gzopen((*this / name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return *this / name;
  }
  Bytes content(const std::filesystem::path& file) const {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
};

}  // namespace ddp
