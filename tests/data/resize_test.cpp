#include "data/resize.h"

#include "tests/data/codec/picture_files.h"

#include <sstream>

namespace ddp {
namespace {

// `pattern` of tests/data/pictures/make.py, at 1 or 4 bytes a pixel, with noise behind each row.
Bytes pattern(int64_t w, int64_t h, int channels, int64_t stride) {
  Bytes rows(static_cast<size_t>(h * stride), 99);
  for (int64_t y = 0; y < h; ++y)
    for (int64_t x = 0; x < w; ++x)
      for (int c = 0; c < channels; ++c) {
        auto n = static_cast<uint32_t>(x * 73856093 + y * 19349663 + c * 83492791);
        n = (n ^ n >> 13) * 1274126177u;
        const int64_t value = x / 8 % 2 == 1 ? (x * 5 + y * 3 + c * 60) % 256 : n >> 24;
        rows[static_cast<size_t>(y * stride + x * (channels == 1 ? 1 : 4) + c)] = static_cast<uint8_t>(value);
      }
  return rows;
}

struct Case {
  int channels = 0;
  Interpolation interpolation = {};
  ResizeAxis x, y;
};

Bytes resized(Resize& resize, const Case& c) {
  const int64_t pixel = c.channels == 1 ? 1 : 4, stride = c.x.input * pixel + kResizePadding;
  const Bytes rows = pattern(c.x.input, c.y.input, c.channels, stride);
  const Box box = resize.begin(c.x, c.y, c.interpolation, c.channels);
  Bytes result(static_cast<size_t>(c.x.count * c.y.count * c.channels), 77);
  // In pieces of 1, 2, 3, ... rows.
  for (int64_t y = 0, piece = 1; y < box.h; y += piece++)
    resize.put(rows.data() + (box.y + y) * stride + box.x * pixel, stride, std::min(piece, box.h - y), result.data(),
               c.x.count * c.channels);
  return result;
}

std::vector<Case> pillow_cases() {
  const Bytes text = picture_file("resize.txt");
  std::istringstream lines(std::string(text.begin(), text.end()));
  std::vector<Case> cases;
  std::string filter;
  for (Case c; lines >> c.channels >> filter >> c.x.input >> c.y.input >> c.x.begin >> c.y.begin >> c.x.end >>
               c.y.end >> c.x.output >> c.y.output >> c.x.first >> c.y.first >> c.x.count >> c.y.count;) {
    c.interpolation = filter == "bilinear"  ? Interpolation::bilinear
                      : filter == "bicubic" ? Interpolation::bicubic
                                            : Interpolation::nearest;
    cases.push_back(c);
  }
  return cases;
}

TEST(Resize, EqualsPillow) {
  const std::vector<Case> cases = pillow_cases();
  EXPECT_EQ(cases.size(), 200u);
  const Bytes expected = picture_file("resize.bin");
  for (int set = 0; const ResizeKernels* kernels = resize_kernels_of(set); ++set) {
    Resize resize(*kernels);
    auto at = expected.begin();
    for (size_t i = 0; i < cases.size(); ++i) {
      const Bytes result = resized(resize, cases[i]);
      ASSERT_TRUE(std::equal(result.begin(), result.end(), at))
          << "set " << set << ", line " << i + 1 << " of resize.txt";
      at += static_cast<std::ptrdiff_t>(result.size());
    }
    EXPECT_TRUE(at == expected.end());
  }
}

TEST(Resize, KeepsAPictureOfOneSize) {
  for (const Interpolation interpolation : {Interpolation::bilinear, Interpolation::bicubic, Interpolation::nearest})
    for (const int channels : {1, 3}) {
      Resize resize;
      const Case c = {channels, interpolation, {40, 0, 40, 40, 5, 30}, {25, 0, 25, 25, 1, 20}};
      const Box box = resize.begin(c.x, c.y, interpolation, channels);
      EXPECT_EQ(box, (Box{5, 1, 30, 20}));  // no pixel beside the window
      const Bytes result = resized(resize, c), rows = pattern(40, 25, channels, 200);
      for (int64_t y = 0; y < 20; ++y)
        for (int64_t i = 0; i < 30 * channels; ++i) {
          const int64_t from = (y + 1) * 200 + (channels == 1 ? 5 + i : (5 + i / 3) * 4 + i % 3);
          ASSERT_EQ(result[static_cast<size_t>(y * 30 * channels + i)], rows[static_cast<size_t>(from)]);
        }
    }
}

}  // namespace
}  // namespace ddp
