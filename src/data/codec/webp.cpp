#include "data/codec/webp.h"

#include "core/error.h"
#include "data/codec/exif.h"
#include "data/resize_kernels.h"

#include <fmt/format.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string_view>

namespace ddp {

bool is_webp(std::span<const uint8_t> file) {
  const std::string_view start(reinterpret_cast<const char*>(file.data()), std::min<size_t>(file.size(), 12));
  return start.starts_with("RIFF") && start.ends_with("WEBP") && start.size() == 12;
}

namespace {

struct Delete {
  void operator()(WebPDemuxer* file) const { WebPDemuxDelete(file); }
};
using Container = std::unique_ptr<WebPDemuxer, Delete>;

// What the head says of the length of the file, which may have more bytes.
int64_t file_bytes_of(std::span<const uint8_t> head) {
  int64_t bytes = 0;
  for (int i = 3; i >= 0; --i) bytes = bytes << 8 | head[4 + i];
  return 8 + bytes;
}

// Throws PictureCutShort where the bytes say less than `least`.
Container open(std::span<const uint8_t> file, WebPDemuxState least) {
  if (!is_webp(file)) throw PictureError("not a WebP file");
  const WebPData bytes{.bytes = file.data(), .size = file.size()};
  WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
  Container container(WebPDemuxPartial(&bytes, &state));
  if (container && state >= least) return container;
  if (state != WEBP_DEMUX_PARSE_ERROR && file_bytes_of(file) > std::ssize(file))
    throw PictureCutShort("the file is cut short");
  throw PictureError("damaged WebP data: its chunks are not those of a picture");
}

PictureSize size_of(const Container& container) {
  return {WebPDemuxGetI(container.get(), WEBP_FF_CANVAS_WIDTH), WebPDemuxGetI(container.get(), WEBP_FF_CANVAS_HEIGHT)};
}

int orientation_of(const Container& container) {
  WebPChunkIterator found;
  const bool any = WebPDemuxGetChunk(container.get(), "EXIF", 1, &found) != 0;
  const int orientation = any ? exif_orientation({found.chunk.bytes, found.chunk.size}) : 1;
  WebPDemuxReleaseChunkIterator(&found);
  return orientation;
}

PictureHeader header_of(const Container& container, std::span<const uint8_t> head) {
  const PictureSize size = size_of(container);
  if (size.h > kMaxPicturePixels / size.w)
    throw PictureError(
        fmt::format("{} x {} pixels, more than {} are not read: scale it down", size.w, size.h, kMaxPicturePixels));
  const uint32_t flags = WebPDemuxGetI(container.get(), WEBP_FF_FORMAT_FLAGS);
  return {.kind = PictureHeader::Kind::webp,
          .size = size,
          .orientation = orientation_of(container),
          .alpha = (flags & ALPHA_FLAG) != 0,
          .buffered = true,
          .animated = (flags & ANIMATION_FLAG) != 0,
          .file_bytes = file_bytes_of(head)};
}

void require_decoded(VP8StatusCode code) {
  if (code == VP8_STATUS_OK) return;
  if (code == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
  if (code == VP8_STATUS_NOT_ENOUGH_DATA || code == VP8_STATUS_SUSPENDED)
    throw PictureCutShort("its pixels are cut short");
  throw PictureError("damaged WebP data: its pixels cannot be decoded");
}

// Decodes the first frame to its place on a canvas of red, green, blue and alpha. Outside of it the canvas is zero, as
// in Pillow.
void decode_frame(const Container& container, const PictureSize& size, std::vector<uint8_t>& canvas) {
  WebPIterator frame;
  const bool any = WebPDemuxGetFrame(container.get(), 1, &frame) != 0;
  const std::unique_ptr<WebPIterator, void (*)(WebPIterator*)> owner(&frame, WebPDemuxReleaseIterator);
  if (!any || frame.x_offset < 0 || frame.y_offset < 0 || frame.x_offset + frame.width > size.w ||
      frame.y_offset + frame.height > size.h)
    throw PictureError("damaged WebP data: no frame lies in the picture");
  if (frame.complete == 0) throw PictureCutShort("its pixels are cut short");
  WebPDecoderConfig config;
  DDP_EXPECT(WebPInitDecoderConfig(&config) != 0);
  const int64_t stride = 4 * size.w;
  uint8_t* place = canvas.data() + frame.y_offset * stride + 4 * frame.x_offset;
  config.output.colorspace = MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {.rgba = place,
                          .stride = static_cast<int>(stride),
                          .size = static_cast<size_t>(canvas.data() + stride * size.h - place)};
  require_decoded(WebPDecode(frame.fragment.bytes, frame.fragment.size, &config));
}

}  // namespace

PictureHeader read_webp_header(std::span<const uint8_t> file) { return header_of(open(file, WEBP_DEMUX_DONE), file); }

PictureHeader read_webp_head(std::span<const uint8_t> head) {
  const Container container = open(head, WEBP_DEMUX_PARSED_HEADER);
  if ((WebPDemuxGetI(container.get(), WEBP_FF_FORMAT_FLAGS) & EXIF_FLAG) == 0) return header_of(container, head);
  return read_webp_header(head);  // the block stands behind the pixels
}

void WebpDecoder::decode(std::span<const uint8_t> file, const DecodeRequest& request, RowSink& sink) {
  const Container container = open(file, WEBP_DEMUX_DONE);
  const PictureSize size = size_of(container);
  if (size != request.stored) throw PictureError("it has changed since its header was read");
  canvas_.assign(static_cast<size_t>(4 * size.w * size.h + kResizePadding), 0);
  decode_frame(container, size, canvas_);

  const Box& box = request.box;
  DDP_EXPECT(box.w > 0 && box.h > 0 && box.x >= 0 && box.y >= 0 && box.x + box.w <= size.w && box.y + box.h <= size.h);
  const int64_t stride = 4 * size.w;
  for (int64_t y = 0; y < box.h; y += kResizeStrip) {
    uint8_t* const rows = canvas_.data() + (box.y + y) * stride + 4 * box.x;
    const int64_t count = std::min(kResizeStrip, box.h - y);
    for (int64_t i = 0; i < count; ++i) {
      uint8_t* const row = rows + i * stride;
      for (int64_t x = 0; x < box.w; ++x) put_pixel(row + 4 * x, request, row + request.pixel_bytes * x);
    }
    sink.put(rows, stride, count);
  }
}

}  // namespace ddp
