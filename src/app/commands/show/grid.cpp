#include "app/commands/show/grid.h"

#include "app/commands/show/font.h"
#include "core/error.h"

#include <algorithm>

namespace ddp {
namespace {

constexpr int64_t kLegible = 96, kLongest = 512;  // of an image as it is shown, in pixels
constexpr int64_t kGap = 4, kLine = 2;            // between cells; between image and name

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One byte for each character of UTF-8: bytes that continue a character are left out.
std::string characters_of(std::string_view text) {
  std::string characters;
  for (const char c : text)
    if ((static_cast<uint8_t>(c) & 0xc0) != 0x80) characters += c;
  return characters;
}

}  // namespace

Grid::Grid(int64_t count, const ImageShape& image) : image_(image) {
  DDP_EXPECT(count > 0 && (image.c == 1 || image.c == 3));
  const int64_t longest = std::max(image.h, image.w);
  every_ = ceil_div(longest, kLongest);
  enlarged_ = std::clamp<int64_t>(kLongest / longest, 1, ceil_div(kLegible, image.w));
  shown_w_ = ceil_div(image.w, every_) * enlarged_;
  shown_h_ = ceil_div(image.h, every_) * enlarged_;
  cell_w_ = std::max(shown_w_, kLegible) + kGap;
  cell_h_ = shown_h_ + kLine + kGlyphHeight + kGap;
  width_ = kColumns * cell_w_ + kGap;
  height_ = ceil_div(count, kColumns) * cell_h_ + kGap;
  rgb_.assign(static_cast<size_t>(width_ * height_ * 3), 255);
}

void Grid::set(int64_t x, int64_t y, const uint8_t* pixel, int64_t channels) {
  for (int64_t c = 0; c < 3; ++c) rgb_[(y * width_ + x) * 3 + c] = pixel[channels == 1 ? 0 : c];
}

void Grid::add(std::span<const uint8_t> pixels, std::string_view name) {
  DDP_EXPECT(std::ssize(pixels) == image_.elements());
  const int64_t left = kGap + added_ % kColumns * cell_w_, top = kGap + added_ / kColumns * cell_h_;
  DDP_EXPECT(top + cell_h_ <= height_);
  ++added_;
  for (int64_t y = 0; y < shown_h_; ++y)
    for (int64_t x = 0; x < shown_w_; ++x) {
      const int64_t i = y / enlarged_ * every_, j = x / enlarged_ * every_;
      set(left + x, top + y, &pixels[(i * image_.w + j) * image_.c], image_.c);
    }

  const uint8_t ink = 0;
  const std::string text = characters_of(name).substr(0, static_cast<size_t>((cell_w_ - kGap) / kGlyphWidth));
  for (int64_t k = 0; k < std::ssize(text); ++k)
    for (int y = 0; y < kGlyphHeight; ++y)
      for (int x = 0; x < kGlyphWidth; ++x)
        if (has_ink(text[k], x, y)) set(left + k * kGlyphWidth + x, top + shown_h_ + kLine + y, &ink, 1);
}

}  // namespace ddp
