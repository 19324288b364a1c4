#include "data/codec/jpeg.h"

#include "data/resize.h"
#include "tests/data/codec/picture_files.h"

#include <random>

namespace ddp {
namespace {

class Rows : public RowSink {
 public:
  explicit Rows(const DecodeRequest& request)
      : bytes_(request.box.w * request.pixel_bytes), step_(request.pixel_bytes) {}
  void put(const uint8_t* rows, int64_t stride, int64_t count) override {
    for (int64_t y = 0; y < count; ++y)
      for (int64_t i = 0; i < bytes_; ++i)
        if (step_ == 1 || i % 4 != 3) pixels.push_back(rows[y * stride + i]);
  }
  Bytes pixels;

 private:
  int64_t bytes_, step_;
};

constexpr int kW = 150, kH = 117;  // the pictures sampling-*.jpg

Bytes decode(const Bytes& file, const Box& box, int scale, int pixel_bytes) {
  const DecodeRequest request = {.stored = {kW, kH}, .scale = scale, .box = box, .pixel_bytes = pixel_bytes};
  Rows rows(request);
  JpegDecoder().decode(file, request, rows);
  return rows.pixels;
}

// 1,000 random boxes, and those at the borders, have exactly the pixels of the whole.
TEST(Jpeg, ABoxEqualsTheWhole) {
  std::mt19937 draw(3);
  const auto below = [&](int64_t end) { return static_cast<int64_t>(draw() % static_cast<uint32_t>(end)); };
  for (const char* kind : {"1x1", "2x1", "2x2", "1x2", "4x1", "grey", "progressive", "restart"}) {
    const Bytes file = picture_file("sampling-" + std::string(kind) + ".jpg");
    const int channels = std::string(kind) == "grey" ? 1 : 3, pixel_bytes = channels == 1 ? 1 : 4;
    for (const int scale : {1, 2, 4, 8}) {
      const int64_t w = (kW + scale - 1) / scale, h = (kH + scale - 1) / scale;
      const Bytes whole = decode(file, {0, 0, w, h}, scale, pixel_bytes);
      for (int i = 0; i < (scale == 1 ? 125 : 20); ++i) {
        Box box = {below(w), below(h), 0, 0};
        box.w = 1 + below(w - box.x), box.h = 1 + below(h - box.y);
        const Bytes part = decode(file, box, scale, pixel_bytes);
        bool equal = true;
        for (int64_t y = 0; y < box.h; ++y)
          equal = equal && std::equal(part.begin() + y * box.w * channels, part.begin() + (y + 1) * box.w * channels,
                                      whole.begin() + ((box.y + y) * w + box.x) * channels);
        ASSERT_TRUE(equal) << kind << " 1/" << scale << ": " << box.x << " " << box.y << " " << box.w << " " << box.h;
      }
    }
  }
}

// Colour asked for as grey is Pillow's luma of the colours.
TEST(Jpeg, GreyIsTheLumaOfTheColours) {
  const Bytes file = picture_file("sampling-2x2.jpg");
  const Bytes colour = decode(file, {3, 5, 90, 40}, 1, 4), grey = decode(file, {3, 5, 90, 40}, 1, 1);
  for (size_t i = 0; i < grey.size(); ++i)
    ASSERT_EQ(grey[i], (19595 * colour[3 * i] + 38470 * colour[3 * i + 1] + 7471 * colour[3 * i + 2] + 32768) >> 16);
}

// The resize of a box that is decoded alone, at full size.
Bytes resized_alone(const Bytes& file, const Geometry& geometry) {
  const Box &source = geometry.source, &window = geometry.window;
  const Bytes box = decode_box(file, source);
  Bytes rows(static_cast<size_t>(source.w * source.h * 4 + kResizePadding)),
      result(static_cast<size_t>(window.w * window.h * 3));
  for (int64_t i = 0; i < source.w * source.h; ++i) std::copy_n(box.begin() + 3 * i, 3, rows.begin() + 4 * i);
  Resize resize;
  const auto length = [](int64_t size) { return static_cast<double>(size); };
  const Box need =
      resize.begin({source.w, 0, length(source.w), geometry.resized.w, window.x, window.w},
                   {source.h, 0, length(source.h), geometry.resized.h, window.y, window.h}, Interpolation::bilinear, 3);
  resize.put(rows.data() + (need.y * source.w + need.x) * 4, source.w * 4, need.h, result.data(), window.w * 3);
  return result;
}

Bytes decoded(const Bytes& file, const Geometry& geometry) {
  Bytes pixels(static_cast<size_t>(geometry.window.w * geometry.window.h * 3));
  PictureDecoder({}).decode(file, read_picture_header(file, true), geometry, pixels);
  return pixels;
}

// Pixels outside the source have no influence.
TEST(Jpeg, ResizesTheSourceAlone) {
  const Bytes file = picture_file("sampling-2x2.jpg");
  for (const Geometry& geometry :
       {Geometry{{20, 11, 90, 70}, {60, 50}, {0, 0, 60, 50}}, Geometry{{20, 11, 90, 70}, {60, 50}, {7, 20, 31, 30}},
        Geometry{{33, 35, 21, 19}, {80, 90}, {1, 2, 70, 80}}, Geometry{{0, 0, 150, 117}, {76, 1}, {0, 0, 76, 1}}})
    EXPECT_TRUE(decoded(file, geometry) == resized_alone(file, geometry)) << geometry.resized.w;
}

// A reduction by 2.5 decodes at 1/2 and resizes the rest. It is close to the resize of the whole.
TEST(Jpeg, ScaledDecodesAreClose) {
  const Bytes file = picture_file("sampling-2x2.jpg");
  for (const int64_t shift : {0, 1, 2, 7}) {
    const Geometry geometry = {{shift, shift, 125, 100}, {50, 40}, {0, 0, 50, 40}};
    const Bytes scaled = decoded(file, geometry), exact = resized_alone(file, geometry);
    double error = 0;
    for (size_t i = 0; i < exact.size(); ++i) error += std::abs(exact[i] - scaled[i]);
    EXPECT_LT(error / static_cast<double>(exact.size()), 2.0) << shift;
    EXPECT_GT(error, 0) << shift;
  }
}

}  // namespace
}  // namespace ddp
