#include "ops/cpu/layout.h"

#include "core/error.h"
#include "ops/cpu/lane_kernels.h"

#include <algorithm>

namespace ddp {
namespace {

// Where value (n, position, channel) of a tensor lies.
struct Index {
  int64_t pixels, channels;
  Format format;

  int64_t operator()(int64_t n, int64_t pixel, int64_t c) const {
    const int64_t block = format.block;
    switch (format.kind) {
      case Format::Kind::lanes: return (((n / block) * pixels + pixel) * channels + c) * block + n % block;
      case Format::Kind::channels:
        return ((n * ceil_div(channels, block) + c / block) * pixels + pixel) * block + c % block;
      case Format::Kind::dense: break;
    }
    return (n * pixels + pixel) * channels + c;
  }
};

}  // namespace

int choose_lanes(std::span<const int64_t> batch_sizes) {
  if (batch_sizes.empty() || widest_lanes() == 8) return 8;
  const int64_t n = *std::max_element(batch_sizes.begin(), batch_sizes.end());
  return 10 * 16 * ceil_div(n, 16) <= 11 * 8 * ceil_div(n, 8) ? 16 : 8;
}

void reorder(const Workers& workers, const Tensor& from, const Tensor& to) {
  DDP_EXPECT(from.shape == to.shape);
  const int64_t n = from.shape.n, pixels = from.shape.image.h * from.shape.image.w, channels = from.shape.image.c;
  const Index source{pixels, channels, from.format}, target{pixels, channels, to.format};
  if (to.stored() != to.shape.elements()) std::fill_n(to.f32(), to.stored(), 0.0f);
  workers.each(n, [&](int64_t i) {
    for (int64_t p = 0; p < pixels; ++p)
      for (int64_t c = 0; c < channels; ++c) to.f32()[target(i, p, c)] = from.f32()[source(i, p, c)];
  });
}

void to_lanes(const Workers& workers, const float* dense, int64_t n, int64_t features, int lanes, float* to) {
  workers.each(ceil_div(n, lanes), [&](int64_t b) {
    float* block = to + b * features * lanes;
    const int64_t filled = std::min<int64_t>(lanes, n - b * lanes);
    if (filled < lanes) std::fill_n(block, features * lanes, 0.0f);
    for (int64_t f0 = 0; f0 < features; f0 += 16)
      for (int64_t l = 0; l < filled; ++l)
        for (int64_t f = f0; f < std::min(features, f0 + 16); ++f)
          block[f * lanes + l] = dense[(b * lanes + l) * features + f];
  });
}

void to_dense(const Workers& workers, const float* in_lanes, int64_t n, int64_t features, int lanes, float* dense,
              int64_t stride) {
  workers.each(ceil_div(n, lanes), [&](int64_t b) {
    const float* block = in_lanes + b * features * lanes;
    const int64_t filled = std::min<int64_t>(lanes, n - b * lanes);
    for (int64_t f0 = 0; f0 < features; f0 += 16)
      for (int64_t l = 0; l < filled; ++l)
        for (int64_t f = f0; f < std::min(features, f0 + 16); ++f)
          dense[(b * lanes + l) * stride + f] = block[f * lanes + l];
  });
}

}  // namespace ddp
