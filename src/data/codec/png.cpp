#include "data/codec/png.h"

#include "core/error.h"
#include "data/codec/exif.h"
#include "data/resize_kernels.h"

#include <fmt/format.h>
#include <spng.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

namespace ddp {
namespace {

uint32_t big_endian(const uint8_t* b) {
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | uint32_t{b[3]};
}

// What a walk over the chunks shows.
struct Chunks {
  bool transparency = false;  // tRNS
  std::span<const uint8_t> exif;
};

enum class Walk : uint8_t { to_pixels, to_end, with_checksums };

// Walks to the pixels or to the end of the picture.
Chunks walk(std::span<const uint8_t> file, Walk how) {
  constexpr size_t kFrame = 12;  // bytes of a chunk besides its data: length, name, checksum
  Chunks chunks;
  if (file.size() < sizeof kPngSignature || std::memcmp(file.data(), kPngSignature, sizeof kPngSignature) != 0)
    throw PictureError("not a PNG file");
  for (size_t at = sizeof kPngSignature;;) {
    if (file.size() - at < kFrame) throw PictureCutShort("the file is cut short");
    const uint8_t* chunk = file.data() + at;
    const size_t length = big_endian(chunk);
    const std::string_view name(reinterpret_cast<const char*>(chunk + 4), 4);
    if (!std::all_of(name.begin(), name.end(), [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }))
      throw PictureError("damaged PNG data: a chunk has no name");
    if (how == Walk::to_pixels && name == "IDAT") return chunks;
    if (length > file.size() - at - kFrame) throw PictureCutShort("the file is cut short");
    if (how == Walk::with_checksums &&
        crc32(crc32(0, nullptr, 0), chunk + 4, static_cast<uInt>(4 + length)) != big_endian(chunk + 8 + length))
      throw PictureError(fmt::format("damaged PNG data: wrong checksum in the chunk {}", name));
    if (name == "IEND") return chunks;
    if (name == "tRNS") chunks.transparency = true;
    if (name == "eXIf") chunks.exif = {chunk + 8, length};
    at += kFrame + length;
  }
}

struct Free {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, Free>;

void require_spng(int code) {
  if (code == SPNG_OK) return;
  if (code == SPNG_EMEM) throw std::bad_alloc();
  if (code == SPNG_IO_EOF || code == SPNG_EIDAT_TOO_SHORT) throw PictureError("its pixels are cut short");
  throw PictureError(fmt::format("damaged PNG data: {}", spng_strerror(code)));
}

Context open(std::span<const uint8_t> file, spng_ihdr& header) {
  constexpr size_t kMostText = 16 << 20;  // bytes of texts and colour profiles, which are not used
  Context context(spng_ctx_new(0));
  if (!context) throw std::bad_alloc();
  require_spng(spng_set_crc_action(context.get(), SPNG_CRC_USE, SPNG_CRC_USE));  // walk() has checked them
  require_spng(spng_set_chunk_limits(context.get(), kMostText, kMostText));
  require_spng(spng_set_png_buffer(context.get(), file.data(), file.size()));
  require_spng(spng_get_ihdr(context.get(), &header));
  if (int64_t{header.height} > kMaxPicturePixels / header.width)
    throw PictureError(fmt::format("{} x {} pixels, more than {} are not read: scale it down", header.width,
                                   header.height, kMaxPicturePixels));
  return context;
}

bool is_grey(const spng_ihdr& header) {
  return header.color_type == SPNG_COLOR_TYPE_GRAYSCALE || header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
}

// The rows that libspng gives: grey, RGBA with 8 bits, or RGBA with 16 bits.
struct Rows {
  int format;
  int64_t bytes;  // a pixel
};

Rows rows_of(const spng_ihdr& header, const DecodeRequest& request) {
  if (header.bit_depth == 16) return {SPNG_FMT_RGBA16, 8};
  const bool opaque = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE && request.alpha == Alpha::drop;
  if (opaque && request.pixel_bytes == 1) return {SPNG_FMT_G8, 1};
  return {SPNG_FMT_RGBA8, 4};
}

// Converts `count` pixels to request.pixel_bytes bytes each.
void convert(const uint8_t* from, const Rows& rows, int64_t count, const DecodeRequest& request, uint8_t* to) {
  if (rows.bytes == 1) {
    std::memcpy(to, from, static_cast<size_t>(count));
    return;
  }
  for (int64_t i = 0; i < count; ++i, from += rows.bytes, to += request.pixel_bytes) {
    uint8_t pixel[4];
    if (rows.bytes == 4) {
      std::memcpy(pixel, from, 4);
    } else {
      uint16_t wide[4];
      std::memcpy(wide, from, 8);
      for (int c = 0; c < 4; ++c) pixel[c] = static_cast<uint8_t>((wide[c] * 255u + 32767u) / 65535u);
    }
    put_pixel(pixel, request, to);
  }
}

}  // namespace

namespace {

PictureHeader read_header(std::span<const uint8_t> file, Walk how) {
  const Chunks chunks = walk(file, how);
  spng_ihdr header;
  open(file, header);
  return {.kind = PictureHeader::Kind::png,
          .size = {header.width, header.height},
          .orientation = exif_orientation(chunks.exif),
          .channels = is_grey(header) ? 1 : 3,
          .bits = std::max<int>(header.bit_depth, 8),
          .alpha = chunks.transparency || header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ||
                   header.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA,
          .buffered = header.interlace_method != SPNG_INTERLACE_NONE};
}

}  // namespace

PictureHeader read_png_header(std::span<const uint8_t> file) { return read_header(file, Walk::to_end); }
PictureHeader read_png_head(std::span<const uint8_t> head) { return read_header(head, Walk::to_pixels); }

bool is_plain_png_end(std::span<const uint8_t> tail) {
  constexpr std::string_view kEnd("\0\0\0\0IEND\xae\x42\x60\x82", 12);
  const std::string_view text(reinterpret_cast<const char*>(tail.data()), tail.size());
  return text.ends_with(kEnd) && text.find("eXIf") == text.npos;
}

void PngDecoder::decode(std::span<const uint8_t> file, const DecodeRequest& request, RowSink& sink) {
  walk(file, Walk::with_checksums);
  spng_ihdr header;
  const Context context = open(file, header);
  if (PictureSize{header.width, header.height} != request.stored)
    throw PictureError("it has changed since its header was read");
  const Rows rows = rows_of(header, request);
  const int flags = request.alpha == Alpha::drop ? 0 : SPNG_DECODE_TRNS;
  require_spng(spng_decode_image(context.get(), nullptr, 0, rows.format, flags | SPNG_DECODE_PROGRESSIVE));

  const Box& box = request.box;
  const int64_t row_bytes = header.width * rows.bytes, stride = box.w * request.pixel_bytes + kResizePadding;
  // An interlaced picture arrives in seven passes: all rows of the box stand in rows_. Then comes a row for all others.
  const bool interlaced = header.interlace_method != SPNG_INTERLACE_NONE;
  const int64_t kept = interlaced ? box.h : 0;
  rows_.resize(static_cast<size_t>((kept + 1) * row_bytes));
  strip_.resize(static_cast<size_t>(kResizeStrip * stride));
  int64_t filled = 0;
  const auto give = [&](const uint8_t* row) {
    convert(row + box.x * rows.bytes, rows, box.w, request, strip_.data() + filled * stride);
    if (++filled < kResizeStrip) return;
    sink.put(strip_.data(), stride, filled);
    filled = 0;
  };

  for (;;) {
    spng_row_info info;
    const int more = spng_get_row_info(context.get(), &info);
    if (more == SPNG_EOI) break;
    require_spng(more);
    const int64_t y = int64_t{info.row_num} - box.y;
    if (!interlaced && y >= box.h) break;
    uint8_t* row = rows_.data() + (interlaced && y >= 0 && y < box.h ? y : kept) * row_bytes;
    const int code = spng_decode_row(context.get(), row, static_cast<size_t>(row_bytes));
    if (code != SPNG_EOI) require_spng(code);
    if (!interlaced && y >= 0) give(row);
    if (code == SPNG_EOI) break;
  }
  for (int64_t y = 0; y < kept; ++y) give(rows_.data() + y * row_bytes);
  if (filled > 0) sink.put(strip_.data(), stride, filled);
}

}  // namespace ddp
