// Writes PNG files without filters.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace ddp::testing {

inline std::string png_number(size_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift);
  return bytes;
}

inline std::string png_chunk(const std::string& name, const std::string& content) {
  const std::string covered = name + content;
  const auto* bytes = reinterpret_cast<const Bytef*>(covered.data());
  return png_number(content.size()) + covered + png_number(crc32(0, bytes, static_cast<uInt>(covered.size())));
}

// `pixels`: HWC; `channels`: 1 or 3; `bits` of a channel: 8, or 16 with the upper byte first.
inline void write_png(const std::filesystem::path& path, int w, int h, int channels, std::span<const uint8_t> pixels,
                      int bits = 8) {
  const size_t row = static_cast<size_t>(w) * channels * bits / 8;
  ASSERT_EQ(pixels.size(), row * h);
  std::string rows;
  for (int y = 0; y < h; ++y) {
    rows += '\0';
    rows.append(reinterpret_cast<const char*>(pixels.data()) + y * row, row);
  }
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
                     rows.size()),
            Z_OK);
  packed.resize(size);
  const std::string kind{static_cast<char>(bits), channels == 1 ? '\0' : '\2', 0, 0, 0};
  std::ofstream(path, std::ios::binary) << "\x89PNG\r\n\x1a\n"
                                        << png_chunk("IHDR", png_number(w) + png_number(h) + kind)
                                        << png_chunk("IDAT", packed) << png_chunk("IEND", "");
}

}  // namespace ddp::testing
