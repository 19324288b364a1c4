// Writes PNG files with libspng.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ddp {

// The content of a PNG file of w x h pixels, with 8 bits a channel. `rgb`: HWC, three channels. Throws
// Error(Exit::output) if libspng refuses, and std::bad_alloc.
std::string encode_png(int64_t w, int64_t h, std::span<const uint8_t> rgb);

}  // namespace ddp
