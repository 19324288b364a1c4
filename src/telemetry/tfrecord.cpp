#include "telemetry/tfrecord.h"

#include <array>
#include <bit>

namespace ddp {
namespace {

constexpr std::array<uint32_t, 256> kCrcOfByte = [] {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}();

// Little-endian.
std::string bytes_of(uint64_t number, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(number >> 8 * i & 0xff);
  return bytes;
}

// A file may hold records in records: the mask keeps a checksum from being one of data that has checksums.
std::string checksum(std::string_view data) { return bytes_of(std::rotr(crc32c(data), 15) + 0xa282ead8u, 4); }

}  // namespace

uint32_t crc32c(std::string_view data) {
  uint32_t crc = ~0u;
  for (const char c : data) crc = crc >> 8 ^ kCrcOfByte[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::string tfrecord(std::string_view data) {
  std::string record = bytes_of(data.size(), 8);
  record += checksum(record);
  record += data;
  record += checksum(data);
  return record;
}

}  // namespace ddp
