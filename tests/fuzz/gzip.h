// gzip in memory, for mutations of compressed content.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

constexpr int kGzip = 16;

// Returns false if `packed` is not one gzip stream or unpacks to more than 4 KiB.
inline bool unpack(std::span<const uint8_t> packed, std::vector<uint8_t>& content) {
  if (packed.size() < 2 || packed[0] != 0x1f || packed[1] != 0x8b) return false;
  content.resize(1 << 12);
  z_stream z = {};
  z.next_in = const_cast<uint8_t*>(packed.data());
  z.avail_in = static_cast<unsigned>(packed.size());
  z.next_out = content.data();
  z.avail_out = static_cast<unsigned>(content.size());
  if (inflateInit2(&z, 15 + kGzip) != Z_OK) return false;
  const int code = inflate(&z, Z_FINISH);
  content.resize(z.total_out);
  inflateEnd(&z);
  return code == Z_STREAM_END;
}

inline std::vector<uint8_t> pack(std::span<const uint8_t> content) {
  z_stream z = {};
  constexpr int kSmallestWindow = 9, kLeastMemory = 1;
  if (deflateInit2(&z, 1, Z_DEFLATED, kSmallestWindow + kGzip, kLeastMemory, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  std::vector<uint8_t> packed(deflateBound(&z, content.size()));
  z.next_in = const_cast<uint8_t*>(content.data());
  z.avail_in = static_cast<unsigned>(content.size());
  z.next_out = packed.data();
  z.avail_out = static_cast<unsigned>(packed.size());
  deflate(&z, Z_FINISH);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

}  // namespace ddp
