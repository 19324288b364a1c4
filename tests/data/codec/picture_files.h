// The pictures of tests/data/pictures (make.py there describes them), and decodes of them.
#pragma once

#include "data/codec/picture.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

namespace ddp {

using Bytes = std::vector<uint8_t>;

inline Bytes picture_file(const std::string& name) {
  std::ifstream file(std::filesystem::path(DDP_PICTURES) / name, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

// A box of the upright picture, not resized.
inline Bytes decode_box(const Bytes& file, const Box& box, const DecodeConfig& config = {}) {
  const PictureHeader header = read_picture_header(file, config.exif);
  Bytes pixels(static_cast<size_t>(box.w * box.h * config.channels), 77);
  PictureDecoder(config).decode(file, header, {box, {box.w, box.h}, {0, 0, box.w, box.h}}, pixels);
  return pixels;
}

inline Bytes decode_all(const Bytes& file, const DecodeConfig& config = {}) {
  const PictureSize size = read_picture_header(file, config.exif).size;
  return decode_box(file, {0, 0, size.w, size.h}, config);
}

inline int largest_difference(const Bytes& a, const Bytes& b) {
  EXPECT_EQ(a.size(), b.size());
  int largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// Expects that `action` throws a PictureError whose text contains `part`.
inline void expect_picture_error(const std::string& part, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error was thrown; expected: " << part;
  } catch (const PictureError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "no \"" << part << "\" in: " << error.what();
  }
}

}  // namespace ddp
