// The framing of TensorFlow's record files: length, masked checksum of the length, data, masked checksum of the data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddp {

// CRC-32C (Castagnoli). A library that computes it faster would be one more package to install, for less than a
// microsecond a step.
uint32_t crc32c(std::string_view data);

std::string tfrecord(std::string_view data);

}  // namespace ddp
