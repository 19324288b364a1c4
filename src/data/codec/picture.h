// Reads JPEG, PNG and WebP files that are in memory. Only this folder sees the headers of the libraries that decode
// them.
//
// Decoding is a pure function of (bytes, geometry). A JPEG is decoded only where the geometry needs it: rows below that
// box are not read, so an error there does not show. A JPEG at least 2, 4 or 8 times as large as the result is decoded
// at 1/2, 1/4 or 1/8, unless the interpolation is `nearest`; then pixels at the edges of the source are averages with
// their neighbours outside. A PNG and a WebP are checked to their ends.
#pragma once

#include "data/geometry.h"

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>

namespace ddp {

// A picture that cannot be read. The text says why, and what to do; it does not name the file.
class PictureError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The same for a file that ends too early.
class PictureCutShort : public PictureError {
 public:
  using PictureError::PictureError;
};

// A picture with more pixels is refused before memory is allocated for them. The limit is Pillow's.
inline constexpr int64_t kMaxPicturePixels = 178'956'970;

struct PictureHeader {
  enum class Kind : uint8_t { jpeg, png, webp };

  Kind kind = Kind::jpeg;
  PictureSize size;        // upright: after the EXIF orientation, if that is applied
  int orientation = 1;     // EXIF's, 1 to 8; 1 where it is not applied, missing or broken
  int channels = 3;        // 1: grey; 3: colour
  int bits = 8;            // of a channel, in the file; less than 8 count as 8
  bool alpha = false;      // has transparent pixels, or may have
  bool buffered = false;   // is decoded as a whole: a progressive JPEG, an interlaced PNG, a WebP
  bool animated = false;   // a WebP with several frames: the picture is the first one
  int64_t file_bytes = 0;  // length of the file, as the head of a WebP says; 0: not said
};

// Reads a whole file's header. The first bytes decide the format. `exif`: whether the orientation is applied. Throws
// PictureError.
PictureHeader read_picture_header(std::span<const uint8_t> file, bool exif);

// Reads the header from the first bytes of a file. What follows is not seen: whether a PNG or a WebP has its end,
// and an EXIF block behind the pixels of a PNG. Throws PictureCutShort if the header needs more bytes, else as above.
PictureHeader read_picture_head(std::span<const uint8_t> head, bool exif);

// Whether these last bytes of a PNG are its end and hold no EXIF block. Then what its head says holds for the file.
bool ends_plainly(std::span<const uint8_t> png_tail);

// Most bytes that decoding takes, besides the file and the result.
int64_t decode_bytes(const PictureHeader& header);

// What becomes of transparent pixels: their colour is kept, or they are laid over white or black.
enum class Alpha : uint8_t { drop, white, black };

struct DecodeConfig {
  int channels = 3;  // of the result, 1 or 3. Grey is Pillow's: (19595 R + 38470 G + 7471 B + 32768) >> 16
  bool exif = true;  // for read_picture_header
  Alpha alpha = Alpha::drop;
  Interpolation interpolation = Interpolation::bilinear;
};

// Keeps its memory between pictures. For one thread at a time.
class PictureDecoder {
 public:
  explicit PictureDecoder(const DecodeConfig& config);
  ~PictureDecoder();
  PictureDecoder(PictureDecoder&&) noexcept;
  PictureDecoder& operator=(PictureDecoder&&) noexcept;

  // Writes geometry.window.w x geometry.window.h pixels, HWC, config.channels bytes each. `header` is that of `file`,
  // and geometry.source lies inside header.size. 16-bit samples v become (255 v + 32767) / 65535. CMYK becomes RGB as
  // in Pillow, which takes all CMYK JPEGs as inverted. Throws PictureError; then `pixels` has no meaning.
  void decode(std::span<const uint8_t> file, const PictureHeader& header, const Geometry& geometry,
              std::span<uint8_t> pixels);

 private:
  struct State;
  DecodeConfig config_;
  std::unique_ptr<State> state_;
};

}  // namespace ddp
