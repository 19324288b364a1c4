#include "data/codec/picture.h"

#include "core/error.h"
#include "data/codec/exif.h"
#include "data/codec/jpeg.h"
#include "data/codec/orientation.h"
#include "data/codec/png.h"
#include "data/codec/turning_sink.h"
#include "data/codec/webp.h"
#include "data/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {
namespace {

bool is_jpeg(std::span<const uint8_t> file) {
  return file.size() >= 3 && file[0] == 0xff && file[1] == 0xd8 && file[2] == 0xff;
}

bool is_png(std::span<const uint8_t> file) {
  return file.size() >= sizeof kPngSignature && std::equal(kPngSignature, std::end(kPngSignature), file.begin());
}

[[noreturn]] void refuse(std::span<const uint8_t> file) {
  if (file.empty()) throw PictureError("the file is empty");
  std::string start;
  for (const uint8_t byte : file.first(std::min<size_t>(file.size(), 16)))
    start += byte >= 0x20 && byte < 0x7f && byte != '\\' ? std::string(1, static_cast<char>(byte))
                                                         : fmt::format("\\x{:02x}", byte);
  throw PictureError(fmt::format("not a JPEG, PNG or WebP file: it begins with \"{}\"", start));
}

// Writes rows to their place in the window, resized.
class ResizingSink : public RowSink {
 public:
  ResizingSink(Resize& resize, uint8_t* to, int64_t stride) : resize_(resize), to_(to), stride_(stride) {}
  void put(const uint8_t* rows, int64_t stride, int64_t count) override {
    resize_.put(rows, stride, count, to_, stride_);
  }

 private:
  Resize& resize_;
  uint8_t* to_;
  int64_t stride_;
};

// The largest scale at which the picture is not smaller than the result.
int scale_of(const PictureHeader& header, const Geometry& geometry, Interpolation interpolation) {
  if (header.kind != PictureHeader::Kind::jpeg || interpolation == Interpolation::nearest) return 1;
  for (const int scale : {8, 4, 2})
    if (geometry.source.w >= scale * geometry.resized.w && geometry.source.h >= scale * geometry.resized.h)
      return scale;
  return 1;
}

int64_t floor_of(double edge) { return static_cast<int64_t>(std::floor(edge)); }
int64_t ceil_of(double edge) { return static_cast<int64_t>(std::ceil(edge)); }

}  // namespace

struct PictureDecoder::State {
  JpegDecoder jpeg;
  PngDecoder png;
  WebpDecoder webp;
  Resize resize;
  std::vector<uint8_t> stored, strip, grey;
};

PictureDecoder::PictureDecoder(const DecodeConfig& config) : config_(config), state_(std::make_unique<State>()) {
  DDP_EXPECT(config.channels == 1 || config.channels == 3);
}
PictureDecoder::~PictureDecoder() = default;
PictureDecoder::PictureDecoder(PictureDecoder&&) noexcept = default;
PictureDecoder& PictureDecoder::operator=(PictureDecoder&&) noexcept = default;

namespace {

using ReadHeader = PictureHeader (*)(std::span<const uint8_t>);

PictureHeader read_header(std::span<const uint8_t> file, bool exif, ReadHeader read_png, ReadHeader read_webp) {
  PictureHeader header;
  if (is_png(file)) {
    header = read_png(file);
  } else if (is_webp(file)) {
    header = read_webp(file);
  } else if (is_jpeg(file)) {
    header = read_jpeg_header(file);
    header.orientation = exif_orientation(find_jpeg_exif(file));
  } else {
    refuse(file);
  }
  if (!exif) header.orientation = 1;
  header.size = Orientation(header.orientation).of(header.size);
  return header;
}

}  // namespace

PictureHeader read_picture_header(std::span<const uint8_t> file, bool exif) {
  return read_header(file, exif, read_png_header, read_webp_header);
}

PictureHeader read_picture_head(std::span<const uint8_t> head, bool exif) {
  return read_header(head, exif, read_png_head, read_webp_head);
}

bool ends_plainly(std::span<const uint8_t> png_tail) { return is_plain_png_end(png_tail); }

int64_t decode_bytes(const PictureHeader& header) {
  constexpr int64_t kBlock = 32;                  // pixels to which libjpeg rounds up
  constexpr int64_t kRow = 256, kRest = 1 << 20;  // a row or column: weights, rows of the resize; libraries
  const int64_t w = header.size.w + kBlock, h = header.size.h + kBlock;
  const int64_t whole = header.kind == PictureHeader::Kind::webp ? 12 : header.buffered ? 8 : 0;
  const int64_t a_pixel = whole + (header.orientation != 1 ? 4 : 0);
  return a_pixel * w * h + kRow * (w + h) + kRest;
}

void PictureDecoder::decode(std::span<const uint8_t> file, const PictureHeader& header, const Geometry& geometry,
                            std::span<uint8_t> pixels) {
  const Box& window = geometry.window;
  const Box& source = geometry.source;
  const PictureSize& resized = geometry.resized;
  DDP_EXPECT(std::ssize(pixels) == window.w * window.h * config_.channels);
  DDP_EXPECT(source.w > 0 && source.h > 0 && source.x >= 0 && source.y >= 0 && source.x + source.w <= header.size.w &&
             source.y + source.h <= header.size.h);
  // The part of the window that the resized picture covers.
  const int64_t x0 = std::max<int64_t>(window.x, 0), x1 = std::min(window.x + window.w, resized.w);
  const int64_t y0 = std::max<int64_t>(window.y, 0), y1 = std::min(window.y + window.h, resized.h);
  if (x1 - x0 < window.w || y1 - y0 < window.h) std::fill(pixels.begin(), pixels.end(), uint8_t{0});
  if (x0 >= x1 || y0 >= y1) return;

  // The source in the upright picture at 1/scale, whose stored size is rounded up.
  const Orientation orientation(header.orientation);
  const int scale = scale_of(header, geometry, config_.interpolation);
  const PictureSize stored = orientation.of(header.size);
  const PictureSize scaled = {(stored.w + scale - 1) / scale, (stored.h + scale - 1) / scale};
  const auto edges_of = [](const Box& box) {
    return Edges{static_cast<double>(box.x), static_cast<double>(box.x + box.w), static_cast<double>(box.y),
                 static_cast<double>(box.y + box.h)};
  };
  Edges cut = orientation.to_stored(edges_of(source), stored);
  cut = orientation.to_upright({cut.x0 / scale, cut.x1 / scale, cut.y0 / scale, cut.y1 / scale}, scaled);

  // Only pixels of the source have influence: they are the resize's input.
  const int64_t left = floor_of(cut.x0), top = floor_of(cut.y0);
  const int channels = config_.channels == 1 || header.channels == 1 ? 1 : 3;
  const auto dx = static_cast<double>(left), dy = static_cast<double>(top);
  const Box need = state_->resize.begin({.input = ceil_of(cut.x1) - left,
                                         .begin = cut.x0 - dx,
                                         .end = cut.x1 - dx,
                                         .output = resized.w,
                                         .first = x0,
                                         .count = x1 - x0},
                                        {.input = ceil_of(cut.y1) - top,
                                         .begin = cut.y0 - dy,
                                         .end = cut.y1 - dy,
                                         .output = resized.h,
                                         .first = y0,
                                         .count = y1 - y0},
                                        config_.interpolation, channels);
  const Edges box = orientation.to_stored(edges_of({left + need.x, top + need.y, need.w, need.h}), scaled);
  const DecodeRequest request = {
      .stored = stored,
      .scale = scale,
      .box = {floor_of(box.x0), floor_of(box.y0), floor_of(box.x1 - box.x0), floor_of(box.y1 - box.y0)},
      .pixel_bytes = channels == 1 ? 1 : 4,
      .alpha = header.alpha ? config_.alpha : Alpha::drop};

  const bool spread = channels < config_.channels;  // grey to three equal channels
  if (spread) state_->grey.resize(static_cast<size_t>(window.w * window.h));
  uint8_t* result = spread ? state_->grey.data() : pixels.data();
  const int64_t stride = window.w * channels;
  ResizingSink resizing(state_->resize, result + (y0 - window.y) * stride + (x0 - window.x) * channels, stride);
  TurningSink turning(state_->stored, orientation.upright() ? Box{} : request.box, request.pixel_bytes, state_->strip);
  RowSink& sink = orientation.upright() ? static_cast<RowSink&>(resizing) : turning;
  switch (header.kind) {
    case PictureHeader::Kind::jpeg: state_->jpeg.decode(file, request, sink); break;
    case PictureHeader::Kind::png: state_->png.decode(file, request, sink); break;
    case PictureHeader::Kind::webp: state_->webp.decode(file, request, sink); break;
  }
  if (!orientation.upright()) turning.turn(orientation, resizing);
  if (!spread) return;
  for (int64_t y = y0; y < y1; ++y)
    for (int64_t i = (y - window.y) * window.w + x0 - window.x, end = i + x1 - x0; i < end; ++i)
      for (int c = 0; c < 3; ++c) pixels[static_cast<size_t>(3 * i + c)] = state_->grey[static_cast<size_t>(i)];
}

}  // namespace ddp
