// JPEG files, read with libjpeg-turbo: baseline, progressive and arithmetic, 8 bits, grey, colour and CMYK.
#pragma once

#include "data/codec/decoder.h"
#include "data/codec/picture.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

// Without the orientation. Throws PictureError.
PictureHeader read_jpeg_header(std::span<const uint8_t> file);

class JpegDecoder {
 public:
  // Decodes a box. Its pixels are exactly those of a full decode (islow, fancy upsampling). Throws PictureError.
  void decode(std::span<const uint8_t> file, const DecodeRequest& request, RowSink& sink);

 private:
  std::vector<uint8_t> strip_;
};

}  // namespace ddp
