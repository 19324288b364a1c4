// Reads single pictures from files, as a network needs them in evaluation. One thread at a time.
#pragma once

#include "data/codec/picture.h"
#include "data/transform.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

class PictureReader {
 public:
  PictureReader(const TransformConfig& transform, const DecodeConfig& decode)
      : transform_(transform), exif_(decode.exif), decoder_(decode) {}

  // Writes the image to `pixels`, HWC, and returns its header. Throws Error(Exit::data), or PictureError, with the
  // reason but without the path.
  PictureHeader read(const std::string& path, std::span<uint8_t> pixels);

 private:
  void read_file(const std::string& path);

  const TransformConfig transform_;
  const bool exif_;
  PictureDecoder decoder_;
  std::vector<uint8_t> file_;
};

}  // namespace ddp
