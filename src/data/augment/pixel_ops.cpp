#include "data/augment/pixel_ops.h"

#include "core/error.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>

namespace ddp {
namespace {

using PixelTable = std::array<uint8_t, 256>;
using Histogram = std::array<int64_t, 256>;

uint8_t cut_off(float value) {
  return static_cast<uint8_t>(static_cast<int32_t>(std::min(std::max(value, 0.0f), 255.0f)));
}

struct Blend {
  explicit Blend(double factor) : first(static_cast<float>(factor)), second(static_cast<float>(1 - factor)) {}
  uint8_t operator()(float x, float y) const { return cut_off(first * x + second * y); }
  float first, second;
};

float grey_of(float red, float green, float blue) {
  return static_cast<float>(static_cast<int32_t>(0.2989f * red + 0.587f * green + 0.114f * blue));
}

template <class Value>
PixelTable table_of(const Value& value) {
  PixelTable table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = value(static_cast<int>(i));
  return table;
}

void look_up(const PixelTable& table, std::span<uint8_t> image) {
  for (uint8_t& pixel : image) pixel = table[pixel];
}

// `table_for(histogram)` gives the table of a channel.
template <class TableFor>
void change_by_histogram(int64_t channels, std::span<uint8_t> image, const TableFor& table_for) {
  DDP_EXPECT(channels == 1 || channels == 3);
  std::array<Histogram, 3> histograms{};
  const size_t step = static_cast<size_t>(channels);
  for (size_t i = 0; i < image.size(); i += step)
    for (size_t c = 0; c < step; ++c) ++histograms[c][image[i + c]];
  std::array<PixelTable, 3> tables;
  for (size_t c = 0; c < step; ++c) tables[c] = table_for(histograms[c]);
  if (step == 1) return look_up(tables[0], image);
  for (size_t i = 0; i < image.size(); i += 3)
    for (size_t c = 0; c < 3; ++c) image[i + c] = tables[c][image[i + c]];
}

float mean_grey(const ImageShape& shape, std::span<const uint8_t> image) {
  int64_t sum = 0;
  if (shape.c == 1)
    for (const uint8_t pixel : image) sum += pixel;
  else
    for (size_t i = 0; i < image.size(); i += 3)
      sum += static_cast<int64_t>(grey_of(image[i], image[i + 1], image[i + 2]));
  return static_cast<float>(sum) / static_cast<float>(shape.h * shape.w);
}

}  // namespace

void adjust_brightness(double factor, std::span<uint8_t> image) {
  const Blend blend(factor);
  look_up(table_of([&](int value) { return blend(static_cast<float>(value), 0); }), image);
}

void adjust_saturation(double factor, const ImageShape& shape, std::span<uint8_t> image) {
  DDP_EXPECT(shape.c == 1 || shape.c == 3);
  if (shape.c == 1) return;
  const Blend blend(factor);
  constexpr size_t kRun = 64;  // pixels that are changed together, one channel after another
  uint8_t channel[3][kRun];
  float grey[kRun];
  for (size_t done = 0, count = 0; done < image.size(); done += 3 * count) {
    count = std::min(kRun, (image.size() - done) / 3);
    uint8_t* const run = &image[done];
    for (size_t k = 0; k < count; ++k)
      for (size_t c = 0; c < 3; ++c) channel[c][k] = run[3 * k + c];
    for (size_t k = 0; k < count; ++k) grey[k] = grey_of(channel[0][k], channel[1][k], channel[2][k]);
    for (uint8_t(&of)[kRun] : channel)
      for (size_t k = 0; k < count; ++k) of[k] = blend(of[k], grey[k]);
    for (size_t k = 0; k < count; ++k)
      for (size_t c = 0; c < 3; ++c) run[3 * k + c] = channel[c][k];
  }
}

void adjust_contrast(double factor, const ImageShape& shape, std::span<uint8_t> image) {
  DDP_EXPECT(shape.c == 1 || shape.c == 3);
  const Blend blend(factor);
  const float mean = mean_grey(shape, image);
  look_up(table_of([&](int value) { return blend(static_cast<float>(value), mean); }), image);
}

void adjust_sharpness(double factor, const ImageShape& shape, std::span<uint8_t> image, std::span<uint8_t> scratch) {
  DDP_EXPECT(static_cast<int64_t>(image.size()) == shape.elements() && scratch.size() >= image.size());
  if (shape.h <= 2 || shape.w <= 2) return;
  const Blend blend(factor);
  std::memcpy(scratch.data(), image.data(), image.size());
  const int64_t row = shape.w * shape.c, c = shape.c;
  for (int64_t y = 0; y < shape.h; ++y) {
    const uint8_t* const from = scratch.data() + y * row;
    uint8_t* const to = image.data() + y * row;
    const auto keep = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = blend(from[i], from[i]);
    };
    if (y == 0 || y + 1 == shape.h) {
      keep(0, row);
      continue;
    }
    keep(0, c);
    for (int64_t i = c; i < row - c; ++i) {
      const auto three = [&](const uint8_t* p) { return p[i - c] + p[i] + p[i + c]; };
      const int sum = three(from - row) + three(from) + three(from + row) + 4 * from[i];
      to[i] = blend(from[i], static_cast<float>((sum + 6) / 13));  // 13 is odd: there are no ties
    }
    keep(row - c, row);
  }
}

void posterize(int bits, std::span<uint8_t> image) {
  DDP_EXPECT(0 <= bits && bits <= 8);
  const auto mask = static_cast<uint8_t>(-(1 << (8 - bits)));
  for (uint8_t& pixel : image) pixel &= mask;
}

void solarize(double threshold, std::span<uint8_t> image) {
  const auto from = static_cast<float>(threshold);
  look_up(table_of(
              [&](int value) { return static_cast<uint8_t>(static_cast<float>(value) >= from ? 255 - value : value); }),
          image);
}

void autocontrast(const ImageShape& shape, std::span<uint8_t> image) {
  change_by_histogram(shape.c, image, [](const Histogram& histogram) {
    const auto used = [](int64_t count) { return count > 0; };
    const auto least = std::ranges::find_if(histogram, used) - histogram.begin();
    const auto most = 255 - (std::find_if(histogram.rbegin(), histogram.rend(), used) - histogram.rbegin());
    if (least >= most) return table_of([](int value) { return static_cast<uint8_t>(value); });
    const float from = static_cast<float>(least), scale = 1 / static_cast<float>(most - least) * 255;
    return table_of([&](int value) { return cut_off((static_cast<float>(value) - from) * scale); });
  });
}

// The brightest value that occurs takes no part in the size of a step.
void equalize(const ImageShape& shape, std::span<uint8_t> image) {
  change_by_histogram(shape.c, image, [&](const Histogram& histogram) {
    const auto brightest = std::find_if(histogram.rbegin(), histogram.rend(), [](int64_t count) { return count > 0; });
    const int64_t step = (shape.h * shape.w - *brightest) / 255;
    if (step == 0) return table_of([](int value) { return static_cast<uint8_t>(value); });
    int64_t below = 0;
    return table_of([&](int value) {
      const int64_t level = (below + step / 2) / step;
      below += histogram[static_cast<size_t>(value)];
      return static_cast<uint8_t>(std::min<int64_t>(level, 255));
    });
  });
}

}  // namespace ddp
