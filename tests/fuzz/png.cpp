// An input is read as a PNG file.
#include "data/codec/png.h"

#include "tests/fuzz/pictures.h"

#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ddp::decode_or_refuse<ddp::PngDecoder>(ddp::read_png_header, 1, {data, size});
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

// A mutated chunk almost never has its checksum. So most mutations are followed by new checksums.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (seed % 8 == 0) return size;
  for (size_t at = 8; at + 12 <= size;) {
    size_t length = 0;
    for (int i = 0; i < 4; ++i) length = length << 8 | data[at + i];
    if (length > size - at - 12) break;
    const auto sum = static_cast<uint32_t>(crc32(crc32(0, nullptr, 0), data + at + 4, static_cast<uInt>(length + 4)));
    for (int i = 0; i < 4; ++i) data[at + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
  return size;
}
