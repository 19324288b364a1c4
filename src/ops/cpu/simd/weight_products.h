// Weight gradients of convolutions as products of transformed tiles, summed over tiles: Winograd's algorithm, and with
// tiles of one output the direct one. All names have internal linkage (kernels.h).
#pragma once

#include "ops/cpu/simd/tiles.h"

namespace ddp {
namespace {

// The direct algorithm for kernels of Kernel x Kernel: nothing is transformed, and all products have the same gradient.
template <long Kernel>
struct SingleOutputs {
  static constexpr long kTile = 1, kStep = 1, kWindow = Kernel, kPoints = Kernel, kTaps = Kernel, kWeights = Kernel,
                        kGradientPoints = 1;
  static constexpr long weight_of(long k) { return k; }

  static void input(const __m512 (&d)[Kernel], __m512 (&to)[Kernel]) { copy(d, to); }
  static void weight_gradient(const __m512 (&m)[Kernel], __m512 (&g)[Kernel]) { copy(m, g); }

 private:
  static void copy(const __m512 (&from)[Kernel], __m512 (&to)[Kernel]) {
    for (long i = 0; i < Kernel; ++i) to[i] = from[i];
  }
};

template <class Number, class Tiles>
struct WeightProducts {
  using Stored = typename Number::Stored;
  using Place = TilePlace<Tiles::kTile>;
  static constexpr long kTile = Tiles::kTile, kPoints = Tiles::kPoints, kWeights = Tiles::kWeights,
                        kKernel = Tiles::kTaps, kGradientPoints = Tiles::kGradientPoints, kPair = Number::kPair,
                        kRows = 8, kRowsStep = kRows * 32 + 16;

  // Adjacent tiles form a word. The last word may lack a tile, which counts as 0.
  template <long Size, long Step, long Points, class F>
  static void transform_slice(const TileTransform& b, const F& line) {
    constexpr long kAhead = 4;
    Place at(b.tiles, 0), ahead(b.tiles, kAhead);
    const auto window_at = [&](const Place& place) {
      return Window<Number, Size, Step>(b.from, place.image, place.row * b.stride - b.top,
                                        place.column * b.stride - b.left);
    };
    for (long t = 0; t < b.tiles.count; t += kPair)
      write_words<Number, Points * Points>(static_cast<uint32_t*>(b.to) + t / kPair * 16, b.step,
                                           [&](long i, const auto& write) {
                                             if (t + i == b.tiles.count) {
                                               for (long k = 0; k < Points * Points; ++k) write(k, _mm512_setzero_ps());
                                               return;
                                             }
                                             window_at(ahead).prefetch(b.channel);
                                             ahead.next();
                                             transform<Points>(window_at(at), b.channel, line, write);
                                             at.next();
                                           });
  }

  // The same for tiles of one pixel, all those of the images: adjacent pixels form a word as they are.
  static void copy_slice(const TileTransform& b) {
    const long plane = b.from.h * b.from.w, first = b.tiles.first % plane;
    const Stored* next = static_cast<const Stored*>(b.from.data) +
                         (b.tiles.first / plane * b.from.channels + b.channel) * plane + first * 16;
    long left = plane - first;
    const auto pixel = [&] {
      const Stored* const at = next;
      next += 16;
      if (--left == 0) {
        left = plane;
        next += (b.from.channels - 16) * plane;
      }
      return at;
    };
    uint32_t* to = static_cast<uint32_t*>(b.to);
    for (long t = 0; t < b.tiles.count; t += kPair, to += 16)
      if constexpr (kPair == 1) {
        const __m512 value = Number::load(pixel());
        Number::store_words(to, value, value);
      } else {
        const __m256i low = Number::raw(pixel());
        Number::store_words(to, low, t + 1 < b.tiles.count ? Number::raw(pixel()) : _mm256_setzero_si256());
      }
  }

  static void transform_inputs(const TileTransform& b) {
    if constexpr (Tiles::kWindow == 1)
      if (b.stride == 1 && b.tiles.tile_rows == b.from.h && b.tiles.tile_columns == b.from.w) return copy_slice(b);
    transform_slice<Tiles::kWindow, Tiles::kStep, kPoints>(b, [](const auto& d, auto& line) { Tiles::input(d, line); });
  }
  static void transform_gradients(const TileTransform& b) {
    if constexpr (kTile == 1)
      copy_slice(b);
    else
      transform_slice<kTile, kTile, kGradientPoints>(b, [](const auto& d, auto& line) { Tiles::gradient(d, line); });
  }

  // Products are padded: rows at multiples of 4 KiB would share one place in the cache. Parts of the tiles stay in the
  // L1 cache.
  static void weight_gradient(const TileWeightGradient& b) {
    constexpr long kPart = 128;
    alignas(64) float all[16 / kRows][kWeights * kWeights * kRowsStep];
    for (long p = 0; p < kPoints; ++p)
      for (long q = 0; q < kPoints; ++q) {
        const long k = p * kPoints + q, row = Tiles::weight_of(p), column = Tiles::weight_of(q);
        const uint32_t* const dy = static_cast<const uint32_t*>(b.dy) + (kGradientPoints > 1 ? k : 0) * b.step;
        const uint32_t* const x = static_cast<const uint32_t*>(b.x) + k * b.step;
        for (long first = 0; first < b.depth; first += kPart)
          for (long o = 0; o < 16; o += kRows)
            multiply<Number, kRows>(dy + first * 16 + o, 1, 16, x + first * 16, b.x_block, 16,
                                    b.depth - first < kPart ? b.depth - first : kPart,
                                    first > 0 || p > row || q > column,
                                    all[o / kRows] + (row * kWeights + column) * kRowsStep);
      }
    for (long o = 0; o < 16; o += kRows) {
      const float* const products = all[o / kRows];
      for (long row = 0; row < kRows; ++row)
        for (long half = 0; half < 32; half += 16) {
          const float* const m = products + row * 32 + half;
          __m512 rows[kKernel][kWeights];
          for (long q = 0; q < kWeights; ++q) {
            __m512 column[kWeights], sums[kKernel];
#pragma GCC unroll 16
            for (long p = 0; p < kWeights; ++p) column[p] = _mm512_loadu_ps(m + (p * kWeights + q) * kRowsStep);
            Tiles::weight_gradient(column, sums);
            for (long p = 0; p < kKernel; ++p) rows[p][q] = sums[p];
          }
          for (long p = 0; p < kKernel; ++p) {
            __m512 sums[kKernel];
            Tiles::weight_gradient(rows[p], sums);
            float* const to = b.dweight + ((o + row) * kKernel + p) * kKernel * b.in + half;
            for (long q = 0; q < kKernel; ++q)
              _mm512_storeu_ps(to + q * b.in, b.add ? _mm512_loadu_ps(to + q * b.in) + sums[q] : sums[q]);
          }
        }
    }
  }

  static constexpr WeightKernels kTable = {.tile = kTile,
                                           .kernel = kKernel,
                                           .products = kPoints * kPoints,
                                           .gradient_products = kGradientPoints * kGradientPoints,
                                           .pair = kPair,
                                           .granule = 2,
                                           .slice_bytes = 2 << 20,
                                           .least = Tiles::kStep > kTile ? 32
                                                    : kWeights > 6       ? 64
                                                                         : 128,
                                           .outputs = 16,
                                           .transform_inputs = transform_inputs,
                                           .transform_gradients = transform_gradients,
                                           .weight_gradient = weight_gradient};
};

}  // namespace
}  // namespace ddp
