#include "data/augment/affine.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace ddp {
namespace {

constexpr double kDegree = std::numbers::pi / 180;
constexpr int kRun = 64;                  // positions of a row that are computed together
constexpr float kRounding = 0x1.8p23f;    // adding and subtracting it rounds to even
constexpr int64_t kBefore = 1, kRim = 3;  // black pixels before the image, and in all, in each row and column

double shear_angle(double t) { return std::atan(t) * (180 / std::numbers::pi) * kDegree; }

float rounded(float value) { return (value + kRounding) - kRounding; }

// The image in a black rim. A position outside the image counts as one in the rim, so no pixel needs a condition.
struct Rimmed {
  const uint8_t* pixels;
  int64_t stride;
};

Rimmed rim(const ImageShape& shape, std::span<const uint8_t> image, std::span<uint8_t> scratch) {
  const int64_t row = shape.w * shape.c, stride = (shape.w + kRim) * shape.c;
  std::memset(scratch.data(), 0, scratch_bytes(shape));
  for (int64_t y = 0; y < shape.h; ++y)
    std::memcpy(scratch.data() + (y + kBefore) * stride + kBefore * shape.c, image.data() + y * row,
                static_cast<size_t>(row));
  return {scratch.data(), stride};
}

// Sources of a run of positions, in pixels of the image, within [-1, width] and [-1, height].
struct Sources {
  float x[kRun], y[kRun];
};

// affine_grid and grid_sample: coordinates go to [-1, 1] and back.
class Grid {
 public:
  Grid(const AffineMap& map, const ImageShape& shape)
      : half_w_(static_cast<float>(shape.w) / 2),
        half_h_(static_cast<float>(shape.h) / 2),
        w_(static_cast<float>(shape.w)),
        h_(static_cast<float>(shape.h)) {
    for (size_t i = 0; i < 6; ++i) m_[i] = static_cast<float>(map[i]) / (i < 3 ? half_w_ : half_h_);
  }

  void sources(int64_t y, int64_t first, Sources& to) const {
    const float j = static_cast<float>(y) - (half_h_ - 0.5f), begin = static_cast<float>(first) - (half_w_ - 0.5f);
    const float x_of_row = j * m_[1], y_of_row = j * m_[4];
    for (int k = 0; k < kRun; ++k) {
      const float i = begin + static_cast<float>(k);
      const float x = (i * m_[0] + x_of_row + m_[2] + 1) * half_w_ - 0.5f;
      const float source_y = (i * m_[3] + y_of_row + m_[5] + 1) * half_h_ - 0.5f;
      to.x[k] = std::min(std::max(x, -1.0f), w_);
      to.y[k] = std::min(std::max(source_y, -1.0f), h_);
    }
  }

 private:
  float half_w_, half_h_, w_, h_;
  float m_[6];
};

template <int C>
void nearest(const Sources& at, int count, const Rimmed& from, uint8_t* to) {
  int32_t offset[kRun];
  const auto stride = static_cast<int32_t>(from.stride);
  for (int k = 0; k < kRun; ++k)
    offset[k] =
        (static_cast<int32_t>(rounded(at.y[k])) + 1) * stride + (static_cast<int32_t>(rounded(at.x[k])) + 1) * C;
  for (int k = 0; k < count; ++k)
    for (int c = 0; c < C; ++c) to[k * C + c] = from.pixels[offset[k] + c];
}

template <int C>
void bilinear(const Sources& at, int count, const Rimmed& from, uint8_t* to) {
  int32_t offset[kRun];
  float east[kRun], south[kRun];
  const auto stride = static_cast<int32_t>(from.stride);
  for (int k = 0; k < kRun; ++k) {
    const auto x = static_cast<int32_t>(at.x[k] + 1), y = static_cast<int32_t>(at.y[k] + 1);  // of the rimmed image
    east[k] = at.x[k] - static_cast<float>(x - 1);
    south[k] = at.y[k] - static_cast<float>(y - 1);
    offset[k] = y * stride + x * C;
  }
  uint8_t corner[4][C][kRun];
  for (int k = 0; k < count; ++k) {
    const uint8_t *const upper = from.pixels + offset[k], *const lower = upper + stride;
    for (int c = 0; c < C; ++c) {
      corner[0][c][k] = upper[c];
      corner[1][c][k] = upper[C + c];
      corner[2][c][k] = lower[c];
      corner[3][c][k] = lower[C + c];
    }
  }
  for (int k = count; k < kRun; ++k)
    for (auto& of_corner : corner)
      for (auto& of_channel : of_corner) of_channel[k] = 0;
  uint8_t result[C][kRun];
  for (int c = 0; c < C; ++c)
    for (int k = 0; k < kRun; ++k) {
      const float west = 1 - east[k], north = 1 - south[k];
      const float value = static_cast<float>(corner[0][c][k]) * (west * north) +
                          static_cast<float>(corner[1][c][k]) * (east[k] * north) +
                          static_cast<float>(corner[2][c][k]) * (west * south[k]) +
                          static_cast<float>(corner[3][c][k]) * (east[k] * south[k]);
      result[c][k] = static_cast<uint8_t>(static_cast<int32_t>(rounded(value)));
    }
  for (int k = 0; k < count; ++k)
    for (int c = 0; c < C; ++c) to[k * C + c] = result[c][k];
}

template <int C>
void resample_channels(const Grid& grid, const ImageShape& shape, Interpolation interpolation, const Rimmed& from,
                       uint8_t* to) {
  Sources at;
  for (int64_t y = 0; y < shape.h; ++y)
    for (int64_t x = 0; x < shape.w; x += kRun) {
      grid.sources(y, x, at);
      const auto count = static_cast<int>(std::min<int64_t>(kRun, shape.w - x));
      uint8_t* const row = to + (y * shape.w + x) * C;
      interpolation == Interpolation::nearest ? nearest<C>(at, count, from, row) : bilinear<C>(at, count, from, row);
    }
}

}  // namespace

// torchvision's order of the sums around the centre decides the last bit, and so what nearest does at a tie.
AffineMap shear_x(double t, const ImageShape& image) {
  const double tangent = std::tan(shear_angle(t)), x = static_cast<double>(image.w) / 2,
               y = static_cast<double>(image.h) / 2;
  return {1, tangent, x + tangent * y - x, 0, 1, 0};
}

AffineMap shear_y(double t, const ImageShape& image) {
  const double angle = shear_angle(t), tangent = std::sin(angle) / std::cos(angle);
  const double x = static_cast<double>(image.w) / 2, y = static_cast<double>(image.h) / 2;
  return {1, 0, 0, tangent, 1, tangent * x + y - y};
}

AffineMap translate(int64_t x, int64_t y) { return {1, 0, -static_cast<double>(x), 0, 1, -static_cast<double>(y)}; }

AffineMap rotate(double degrees) {
  const double angle = -degrees * kDegree, c = std::cos(angle), s = std::sin(angle);
  return {c, s, 0, -s, c, 0};
}

size_t scratch_bytes(const ImageShape& image) {
  return static_cast<size_t>((image.h + kRim) * (image.w + kRim) * image.c);
}

void resample(const AffineMap& map, const ImageShape& shape, Interpolation interpolation, std::span<uint8_t> image,
              std::span<uint8_t> scratch) {
  DDP_EXPECT(shape.c == 1 || shape.c == 3);
  DDP_EXPECT(interpolation != Interpolation::bicubic);
  DDP_EXPECT(static_cast<int64_t>(image.size()) == shape.elements() && scratch.size() >= scratch_bytes(shape));
  const Rimmed from = rim(shape, image, scratch);
  const Grid grid(map, shape);
  shape.c == 1 ? resample_channels<1>(grid, shape, interpolation, from, image.data())
               : resample_channels<3>(grid, shape, interpolation, from, image.data());
}

}  // namespace ddp
