// Shared by the targets that decode pictures.
#pragma once

#include "data/codec/decoder.h"
#include "tests/fuzz/check.h"

#include <cstdint>
#include <new>
#include <span>

namespace ddp {

class CountingSink : public RowSink {
 public:
  explicit CountingSink(int64_t row_bytes) : row_bytes_(row_bytes) {}
  void put(const uint8_t* rows, int64_t stride, int64_t count) override {
    for (int64_t y = 0; y < count; ++y)
      for (int64_t i = 0; i < row_bytes_; ++i) sum_ += rows[y * stride + i];
    rows_ += count;
  }
  int64_t rows() const { return rows_; }

 private:
  int64_t row_bytes_, rows_ = 0;
  uint64_t sum_ = 0;
};

// Reads a file's header, and decodes a box that the file's size chooses. Larger pictures would only take time.
template <class Decoder>
void decode_or_refuse(PictureHeader (*read_header)(std::span<const uint8_t>), int scale,
                      std::span<const uint8_t> file) {
  try {
    const PictureHeader header = read_header(file);
    check(header.size.w > 0 && header.size.h > 0, "a picture has pixels");
    if (header.size.w > 4096 || header.size.h > 4096 || header.size.w * header.size.h > 1 << 16) return;
    const int64_t w = (header.size.w + scale - 1) / scale, h = (header.size.h + scale - 1) / scale;
    const auto seed = static_cast<int64_t>(file.size());
    Box box = {seed % w, seed / 7 % h, 0, 0};
    if (seed % 2 == 0) box.x = box.y = 0;
    box.w = w - box.x, box.h = h - box.y;
    const int pixel_bytes = header.channels == 1 || seed % 3 == 0 ? 1 : 4;
    CountingSink sink(box.w * pixel_bytes);
    const DecodeRequest request = {header.size, scale, box, pixel_bytes, static_cast<Alpha>(seed % 3)};
    Decoder().decode(file, request, sink);
    check(sink.rows() == box.h, "a decoder yields all rows");
    ++accepted.readers;
  } catch (const PictureError&) {
  }
}

}  // namespace ddp
