#include "data/codec/exif.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace ddp {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kName = "Exif\0\0"sv;

bool starts_with(std::span<const uint8_t> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::equal(text.begin(), text.end(), bytes.begin(),
                                                   [](char c, uint8_t b) { return static_cast<uint8_t>(c) == b; });
}

// Numbers of a TIFF file. A read past the end gives 0, which no reader below accepts.
struct Tiff {
  std::span<const uint8_t> bytes;
  bool little;

  uint32_t number(size_t at, size_t size) const {
    if (at > bytes.size() || size > bytes.size() - at) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) value = value << 8 | bytes[at + (little ? size - 1 - i : i)];
    return value;
  }
};

}  // namespace

std::span<const uint8_t> find_jpeg_exif(std::span<const uint8_t> file) {
  constexpr uint8_t kApp1 = 0xe1, kStartOfScan = 0xda, kEnd = 0xd9;
  size_t at = 2;  // after the start of the image
  while (at + 4 <= file.size() && file[at] == 0xff) {
    const uint8_t marker = file[at + 1];
    if (marker == 0xff) {  // a fill byte
      ++at;
      continue;
    }
    if (marker == kStartOfScan || marker == kEnd) break;
    if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) {  // markers without a segment
      at += 2;
      continue;
    }
    const size_t length = size_t{file[at + 2]} << 8 | file[at + 3];  // with itself
    if (length < 2 || length > file.size() - at - 2) break;
    const auto segment = file.subspan(at + 4, length - 2);
    if (marker == kApp1 && starts_with(segment, kName)) return segment.subspan(kName.size());
    at += 2 + length;
  }
  return {};
}

int exif_orientation(std::span<const uint8_t> tiff) {
  constexpr uint32_t kOrientation = 274, kShort = 3, kLong = 4;
  constexpr size_t kEntry = 12;  // bytes: tag, type, number of values, value
  if (starts_with(tiff, kName)) tiff = tiff.subspan(kName.size());
  const bool little = starts_with(tiff, "II*\0"sv);
  if (!little && !starts_with(tiff, "MM\0*"sv)) return 1;
  const Tiff in{tiff, little};
  const size_t directory = in.number(4, 4);
  const size_t entries = in.number(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t at = directory + 2 + i * kEntry;
    if (at + kEntry > tiff.size()) return 1;
    if (in.number(at, 2) != kOrientation) continue;
    const uint32_t type = in.number(at + 2, 2), values = in.number(at + 4, 4);
    if (values != 1 || (type != kShort && type != kLong)) return 1;
    const uint32_t value = in.number(at + 8, type == kShort ? 2 : 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace ddp
