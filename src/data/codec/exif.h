// The orientation of a picture in an EXIF block: a small TIFF file, whose first directory has the tag 274. A broken
// block counts as 1, upright.
#pragma once

#include <cstdint>
#include <span>

namespace ddp {

// The EXIF block of a JPEG file: the TIFF bytes of its first APP1 segment with the name Exif. Empty if there is none
// before the pixels.
std::span<const uint8_t> find_jpeg_exif(std::span<const uint8_t> file);

// 1 to 8, as EXIF 2.3 defines it. The TIFF bytes may have the prefix "Exif\0\0".
int exif_orientation(std::span<const uint8_t> tiff);

}  // namespace ddp
