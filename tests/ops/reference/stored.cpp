#include "tests/ops/reference/stored.h"

#include "core/bf16.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ddp::reference {
namespace {

// Calls f(index in the dense order, index in memory) for each value.
template <class F>
void each_place(const Shape& shape, Format format, F&& f) {
  const int64_t pixels = shape.image.h * shape.image.w, channels = shape.image.c, block = format.block;
  const bool lanes = format.kind == Format::Kind::batch_interleaved;
  const int64_t run = format.kind == Format::Kind::blocked_channels ? block : channels;  // adjacent channels
  const int64_t step = lanes ? block : 1, blocks = (channels + run - 1) / run;
  int64_t i = 0;
  for (int64_t n = 0; n < shape.n; ++n) {
    const int64_t sample = lanes ? n / block * block * pixels * channels + n % block : n * blocks * pixels * run;
    for (int64_t p = 0; p < pixels; ++p)
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t first = sample + (b * pixels + p) * run * step, count = std::min(run, channels - b * run);
        for (int64_t k = 0; k < count; ++k) f(i++, first + k * step);
      }
  }
}

}  // namespace

std::vector<uint8_t> stored(const std::vector<float>& dense, const Shape& shape, Format format, DType type,
                            float padding) {
  std::vector<float> values(stored_elements(shape, format), padding);
  each_place(shape, format, [&](int64_t i, int64_t at) { values[at] = dense[i]; });
  std::vector<uint8_t> bytes(values.size() * size_of(type));
  if (bytes.empty()) return bytes;
  if (type == DType::f32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  std::vector<uint16_t> halves(values.size());
  std::ranges::transform(values, halves.begin(), bf16_of_float);
  std::memcpy(bytes.data(), halves.data(), bytes.size());
  return bytes;
}

Loaded loaded(const std::vector<uint8_t>& bytes, const Shape& shape, Format format, DType type) {
  std::vector<float> values(bytes.size() / size_of(type));
  if (type == DType::f32) {
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  } else {
    std::vector<uint16_t> halves(values.size());
    if (!bytes.empty()) std::memcpy(halves.data(), bytes.data(), bytes.size());
    std::ranges::transform(halves, values.begin(), float_of_bf16);
  }
  Loaded result{std::vector<float>(shape.elements()), {}};
  each_place(shape, format, [&](int64_t i, int64_t at) { result.dense[i] = values[at]; });
  if (values.size() == result.dense.size()) return result;
  std::vector<bool> is_padding(values.size(), true);
  each_place(shape, format, [&](int64_t, int64_t at) { is_padding[at] = false; });
  for (size_t at = 0; at < values.size(); ++at)
    if (is_padding[at]) result.padding.push_back(values[at]);
  return result;
}

int64_t first_inexact(const std::vector<float>& actual, const std::vector<float>& expected) {
  float largest = 0;
  for (const float v : expected) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < actual.size(); ++i)
    if (!(std::abs(actual[i] - expected[i]) <= 0x1p-8f * std::abs(expected[i]) + 1e-5f * largest))
      return static_cast<int64_t>(i);
  return -1;
}

}  // namespace ddp::reference
