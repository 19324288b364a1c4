#include "data/codec/jpeg.h"

#include "core/error.h"
#include "data/resize_kernels.h"

#include <fmt/format.h>
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>  // jpeglib.h needs these two first
#include <cstdio>
#include <new>
#include <string>

namespace ddp {
namespace {

// Each scan of a progressive JPEG passes over all its coefficients: a small file with many scans takes minutes.
constexpr int kMaxScans = 500;

// libjpeg's state for one file. libjpeg calls `fail` for an error, which jumps back to `run`.
struct Session {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf back = {};

  Session() = default;
  ~Session() { jpeg_destroy_decompress(&jpeg); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

[[noreturn]] void fail(j_common_ptr jpeg) { std::longjmp(static_cast<Session*>(jpeg->client_data)->back, 1); }

// These files are read without a loss, as in Pillow. All other warnings mean wrong pixels.
bool harmless(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_ADOBE_XFORM || warning == JWRN_JFIF_MAJOR ||
         warning == JWRN_NOT_SEQUENTIAL;
}

void note(j_common_ptr jpeg, int level) {
  if (level < 0 && !harmless(jpeg->err->msg_code)) fail(jpeg);
}

void count_scans(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMaxScans) return;
  jpeg->err->msg_code = JERR_BAD_SCAN_SCRIPT;
  fail(jpeg);
}

std::string reason(Session& session) {
  const jpeg_error_mgr& errors = session.errors;
  constexpr const char* kConvert = "libjpeg-turbo 3 converts it: djpeg OLD.jpg | pnmtopng >NEW.png";
  switch (errors.msg_code) {
    case JERR_BAD_PRECISION:
      return fmt::format("JPEG with {} bits a sample is not supported; {}", errors.msg_parm.i[0], kConvert);
    case JERR_SOF_UNSUPPORTED:
      return fmt::format("{} JPEG is not supported; {}", (errors.msg_parm.i[0] & 3) == 3 ? "lossless" : "hierarchical",
                         kConvert);
    case JERR_BAD_SCAN_SCRIPT: return fmt::format("the JPEG has more than {} scans", kMaxScans);
    default: break;
  }
  char text[JMSG_LENGTH_MAX] = {};
  errors.format_message(reinterpret_cast<j_common_ptr>(&session.jpeg), text);
  std::string message = text;
  constexpr std::string_view kPrefix = "Corrupt JPEG data: ";
  if (message.starts_with(kPrefix)) message.erase(0, kPrefix.size());
  return "damaged JPEG data: " + message;
}

// Runs calls of libjpeg, and throws a PictureError if one of them fails. libjpeg leaves `calls` with a jump: so these
// functions create no object that has a destructor.
template <class Calls>
[[gnu::noinline]] bool returns(Session& session, const Calls& calls) {
  if (setjmp(session.back) != 0) return false;
  calls();
  return true;
}

template <class Calls>
void run(Session& session, const Calls& calls) {
  if (returns(session, calls)) return;
  if (session.errors.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  const int code = session.errors.msg_code;
  if (code == JWRN_JPEG_EOF || code == JERR_INPUT_EOF || code == JERR_INPUT_EMPTY)
    throw PictureCutShort("the file is cut short");
  throw PictureError(reason(session));
}

// Reads up to the first scan.
void open(Session& session, std::span<const uint8_t> file) {
  jpeg_decompress_struct& jpeg = session.jpeg;
  jpeg.err = jpeg_std_error(&session.errors);
  jpeg.client_data = &session;
  session.errors.error_exit = fail;
  session.errors.emit_message = note;
  session.progress.progress_monitor = count_scans;
  run(session, [&] {
    jpeg_create_decompress(&jpeg);
    jpeg.progress = &session.progress;
    jpeg_mem_src(&jpeg, file.data(), file.size());
    jpeg_read_header(&jpeg, TRUE);
  });
  const int n = jpeg.num_components;
  if ((n != 1 && n != 3 && n != 4) || jpeg.jpeg_color_space == JCS_UNKNOWN)
    throw PictureError(fmt::format("JPEG with {} components of unknown colours", n));
  if (int64_t{jpeg.image_width} * jpeg.image_height > kMaxPicturePixels)
    throw PictureError(fmt::format("{} x {} pixels, more than {} are not read: scale it down", jpeg.image_width,
                                   jpeg.image_height, kMaxPicturePixels));
}

bool is_cmyk(const jpeg_decompress_struct& jpeg) { return jpeg.num_components == 4; }

// Pillow's: the file has the complements of C, M, Y and K. From 4 bytes a pixel to 4.
void cmyk_to_rgb(uint8_t* row, int64_t count) {
  for (uint8_t* p = row; p != row + 4 * count; p += 4)
    for (int c = 0; c < 3; ++c) p[c] = static_cast<uint8_t>(p[3] - over_255((255u - p[c]) * p[3]));
}

void rgb_to_grey(uint8_t* row, int64_t count) {
  for (int64_t i = 0; i < count; ++i) row[i] = grey_of(row + 4 * i);
}

void start(Session& session, const DecodeRequest& request) {
  jpeg_decompress_struct& jpeg = session.jpeg;
  jpeg.out_color_space = is_cmyk(jpeg) ? JCS_CMYK : jpeg.num_components == 1 ? JCS_GRAYSCALE : JCS_EXT_RGBX;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg.do_fancy_upsampling = TRUE;
  jpeg.do_block_smoothing = FALSE;  // it would look at blocks outside the box
  jpeg.scale_num = 1;
  jpeg.scale_denom = static_cast<unsigned>(request.scale);
  // For the coefficients of a progressive file: the size of all blocks at 2 bytes, and some room.
  constexpr int64_t kPad = 64, kRoom = 4 << 20;
  jpeg.mem->max_memory_to_use = static_cast<long>(
      int64_t{2} * jpeg.num_components * (jpeg.image_width + kPad) * (jpeg.image_height + kPad) + kRoom);
  run(session, [&] { jpeg_start_decompress(&jpeg); });
}

}  // namespace

PictureHeader read_jpeg_header(std::span<const uint8_t> file) {
  Session session;
  open(session, file);
  jpeg_decompress_struct& jpeg = session.jpeg;
  return {.kind = PictureHeader::Kind::jpeg,
          .size = {jpeg.image_width, jpeg.image_height},
          .channels = jpeg.num_components == 1 ? 1 : 3,
          .buffered = jpeg.progressive_mode || jpeg_has_multiple_scans(&jpeg)};
}

void JpegDecoder::decode(std::span<const uint8_t> file, const DecodeRequest& request, RowSink& sink) {
  Session session;
  open(session, file);
  jpeg_decompress_struct& jpeg = session.jpeg;
  const bool cmyk = is_cmyk(jpeg), grey_file = jpeg.num_components == 1;
  if (PictureSize{jpeg.image_width, jpeg.image_height} != request.stored || (grey_file && request.pixel_bytes != 1))
    throw PictureError("it has changed since its header was read");
  start(session, request);

  // Fancy upsampling takes colours from the pixels beside and above, and it does not know those outside the columns and
  // rows that are decoded. So two more are decoded on each side.
  constexpr int64_t kMargin = 2;
  const Box& box = request.box;
  const int64_t width = jpeg.output_width, height = jpeg.output_height;
  DDP_EXPECT(box.w > 0 && box.h > 0 && box.x >= 0 && box.y >= 0 && box.x + box.w <= width && box.y + box.h <= height);
  const int64_t left = std::max<int64_t>(box.x - kMargin, 0), top = std::max<int64_t>(box.y - kMargin, 0);
  auto first = static_cast<JDIMENSION>(left);
  auto columns = static_cast<JDIMENSION>(std::min(box.x + box.w + kMargin, width) - left);
  run(session, [&] {
    jpeg_crop_scanline(&jpeg, &first, &columns);
    jpeg_skip_scanlines(&jpeg, static_cast<JDIMENSION>(top));
  });

  const int64_t bytes = grey_file ? 1 : 4;
  const int64_t stride = (columns * bytes + kResizePadding + 63) / 64 * 64;
  // libjpeg-turbo writes rows at multiples of 32 past the caches, and the resize would wait for them.
  constexpr size_t kAlign = 32;
  strip_.resize(static_cast<size_t>(kResizeStrip * stride) + kAlign);
  uint8_t* const place =
      strip_.data() + (kAlign + kAlign / 2 - reinterpret_cast<uintptr_t>(strip_.data()) % kAlign) % kAlign;
  std::array<JSAMPROW, kResizeStrip> rows;
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = place + static_cast<int64_t>(i) * stride;
  const auto read = [&](int64_t count) {
    JDIMENSION done = 0;
    run(session, [&] {
      while (done < static_cast<JDIMENSION>(count)) {
        const JDIMENSION more = jpeg_read_scanlines(&jpeg, rows.data() + done, static_cast<JDIMENSION>(count) - done);
        if (more == 0) ERREXIT(&jpeg, JERR_INPUT_EOF);
        done += more;
      }
    });
  };
  if (box.y > top) read(box.y - top);
  for (int64_t y = 0; y < box.h; y += kResizeStrip) {
    const int64_t count = std::min(kResizeStrip, box.h - y);
    read(count);
    const int64_t skipped = (box.x - first) * bytes;
    for (int64_t i = 0; i < count; ++i) {
      uint8_t* row = rows[static_cast<size_t>(i)] + skipped;
      if (cmyk) cmyk_to_rgb(row, box.w);
      if (!grey_file && request.pixel_bytes == 1) rgb_to_grey(row, box.w);
    }
    sink.put(rows[0] + skipped, stride, count);
  }
}

}  // namespace ddp
