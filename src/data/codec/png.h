// PNG files, read with libspng: all colour types, 1 to 16 bits, interlaced or not.
#pragma once

#include "data/codec/decoder.h"
#include "data/codec/picture.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

inline constexpr uint8_t kPngSignature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

// With the orientation of its eXIf chunk, which is not applied to the size. Throws PictureError, also for a file
// without an end.
PictureHeader read_png_header(std::span<const uint8_t> file);

// The same from the first bytes of a file, up to its pixels: without an EXIF block behind these. Throws
// PictureCutShort if the pixels begin later.
PictureHeader read_png_head(std::span<const uint8_t> head);

// Whether these last bytes of a file are the end of a PNG and hold no EXIF block.
bool is_plain_png_end(std::span<const uint8_t> tail);

class PngDecoder {
 public:
  // Decodes a box. Checks the checksums of all chunks. Throws PictureError.
  void decode(std::span<const uint8_t> file, const DecodeRequest& request, RowSink& sink);

 private:
  std::vector<uint8_t> rows_, strip_;
};

}  // namespace ddp
