#include "data/pixel_sums.h"

#include "core/error.h"
#include "core/run_items.h"
#include "data/permutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ddp {
namespace {

PixelSums sums_of(std::span<const uint8_t> pixels, size_t channels) {
  PixelSums sums{.pixels = pixels.size() / channels};
  for (size_t i = 0; i < pixels.size(); i += channels)
    for (size_t c = 0; c < channels; ++c) {
      const uint64_t pixel = pixels[i + c];
      sums.sum[c] += pixel;
      sums.squares[c] += pixel * pixel;
      sums.largest = std::max(sums.largest, pixels[i + c]);
    }
  return sums;
}

}  // namespace

void PixelSums::add(const PixelSums& other) {
  for (size_t c = 0; c < 3; ++c) {
    sum[c] += other.sum[c];
    squares[c] += other.squares[c];
  }
  pixels += other.pixels;
  largest = std::max(largest, other.largest);
}

std::vector<double> PixelSums::mean(int64_t channels) const {
  std::vector<double> means;
  for (int64_t c = 0; c < channels; ++c)
    means.push_back(static_cast<double>(sum[c]) / static_cast<double>(pixels) / 255);
  return means;
}

std::vector<double> PixelSums::deviation(int64_t channels) const {
  std::vector<double> deviations;
  const std::vector<double> means = mean(channels);
  for (int64_t c = 0; c < channels; ++c) {
    const double square = static_cast<double>(squares[c]) / static_cast<double>(pixels) / (255.0 * 255.0);
    deviations.push_back(std::sqrt(std::max(square - means[c] * means[c], 1 / (255.0 * 255.0))));
  }
  return deviations;
}

std::string narrow_range_hint(int largest, int bits) {
  constexpr int kValues = 256;
  if (bits <= 8 || largest > kValues / 8) return "";
  int unused = 3;  // bits
  while (largest << (unused + 1) <= kValues && unused < 8) ++unused;
  return fmt::format(
      "hint: the files have {} bits a channel, but the largest measured value is {} of 255, as if they held {} bits: "
      "the network sees {} levels of grey; multiply the values in the files by {}",
      bits, largest, bits - unused, largest + 1, 1 << unused);
}

std::vector<int64_t> chosen_samples(int64_t size, int64_t most) {
  std::vector<int64_t> chosen(static_cast<size_t>(std::min(size, most)));
  std::iota(chosen.begin(), chosen.end(), 0);
  if (size <= most) return chosen;
  constexpr uint64_t kSeed = 1;  // not --seed: two runs on the same data normalise alike
  const Permutation order(kSeed, 0, size);
  for (int64_t& sample : chosen) sample = order(sample);
  std::ranges::sort(chosen);
  return chosen;
}

PixelSums pixel_sums(const Dataset& data, std::span<const int64_t> samples, int workers,
                     const std::function<void()>& progress, bool excludes) {
  const auto channels = static_cast<size_t>(data.image_shape().c);
  DDP_EXPECT((channels == 1 || channels == 3) && workers >= 1);
  struct OfThread {
    std::vector<uint8_t> pixels;
    PixelSums sums;
  };
  std::vector<OfThread> threads(workers,
                                {std::vector<uint8_t>(static_cast<size_t>(data.image_shape().elements())), {}});
  run_items(workers, std::ssize(samples), [&](int thread, int64_t i) {
    if (thread == 0) progress();
    auto& [pixels, sums] = threads[thread];
    try {
      data.read({.index = samples[i]}, pixels);
    } catch (const Error& e) {
      if (!excludes || e.code() != Exit::data) throw;
      return;
    }
    sums.add(sums_of(pixels, channels));
  });
  PixelSums all;
  for (const OfThread& thread : threads) all.add(thread.sums);
  return all;
}

}  // namespace ddp
