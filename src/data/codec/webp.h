// WebP files, read with libwebp: lossy and lossless, and the first frame of animated ones.
#pragma once

#include "data/codec/decoder.h"
#include "data/codec/picture.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

bool is_webp(std::span<const uint8_t> file);

// With the orientation of its EXIF block, which is not applied to the size. Throws PictureError, also for a file
// without an end.
PictureHeader read_webp_header(std::span<const uint8_t> file);

// The same from the first bytes of a file. Throws PictureCutShort if they do not have the size or the EXIF block.
PictureHeader read_webp_head(std::span<const uint8_t> head);

class WebpDecoder {
 public:
  // Decodes a box, and checks all of the picture. Throws PictureError.
  void decode(std::span<const uint8_t> file, const DecodeRequest& request, RowSink& sink);

 private:
  std::vector<uint8_t> canvas_;
};

}  // namespace ddp
