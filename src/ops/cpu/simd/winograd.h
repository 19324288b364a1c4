// Winograd's algorithm (see tile_passes.h) for values of a type and a size of tiles: toom_cook.h in both dimensions.
// All names have internal linkage (kernels.h).
#pragma once

#include "ops/cpu/simd/tiles.h"
#include "ops/cpu/simd/toom_cook.h"
#include "ops/cpu/simd/weight_products.h"

namespace ddp {
namespace {

// The points 0, 1, -1 and infinity.
struct FourPoints {
  static constexpr bool zero = true, infinity = true;
  static constexpr double pairs[] = {1};
};

// With 11/16 and 3/2, weight gradients from transformed values in bf16 have an error of 0.011 of their norm; with 1 and
// 2 it is 0.025.
struct SixPoints {
  static constexpr bool zero = true, infinity = true;
  static constexpr double pairs[] = {11.0 / 16, 1.5};
};

// In f32, outputs have an error of 6e-6 of their norm, weight gradients of 4e-6.
struct NinePoints {
  static constexpr bool zero = false, infinity = true;
  static constexpr double pairs[] = {0.25, 0.6875, 1.125, 2.25};
};

// These serve F(2, 2), F(4, 2) and F(7, 2).
struct ThreePoints {
  static constexpr bool zero = false, infinity = true;
  static constexpr double pairs[] = {0.5625};
};
struct FivePoints {
  static constexpr bool zero = false, infinity = true;
  static constexpr double pairs[] = {0.375, 1.25};
};
struct EightPoints {
  static constexpr bool zero = false, infinity = false;
  static constexpr double pairs[] = {0.25, 0.75, 1.375, 4.0625};
};

// Tiles of convolutions of 3 x 3, in one dimension. A tile has kTile outputs, and its window kWindow pixels; windows
// are kStep pixels apart. It has kPoints products. Product k has transformed weight weight_of(k) of kWeights.

// These compute F(Outputs, 3).
template <class Points, long Outputs>
struct UnitStrideTiles : ToomCook<Points, Outputs, 3> {
  static constexpr long kTile = Outputs, kStep = Outputs, kWindow = Outputs + 2, kWeights = Outputs + 2,
                        kGradientPoints = Outputs + 2;
  static constexpr long weight_of(long k) { return k; }
};

// Stride 2: taps 0 and 2 read every second pixel, as F(Outputs, 2) does, and tap 1 the pixels between them.
template <class Points, long Outputs>
struct StridedTiles {
  using Pair = ToomCook<Points, Outputs, 2>;
  static constexpr long kTile = Outputs, kStep = 2 * Outputs, kWindow = 2 * Outputs + 1, kPoints = kWindow, kTaps = 3,
                        kWeights = Pair::kPoints + 1, kGradientPoints = kPoints;
  static constexpr long weight_of(long k) { return k < kWeights ? k : kWeights - 1; }

  static void input(const __m512 (&d)[kWindow], __m512 (&to)[kPoints]) {
    __m512 even[Outputs + 1], pair[Outputs + 1];
#pragma GCC unroll 16
    for (long i = 0; i <= Outputs; ++i) even[i] = d[2 * i];
    Pair::input(even, pair);
    join(
        pair, [&](long i) { return d[2 * i + 1]; }, to);
  }
  static void weights(const __m512 (&g)[3], __m512 (&to)[kWeights]) {
    const __m512 ends[2] = {g[0], g[2]};
    __m512 pair[Outputs + 1];
    Pair::weights(ends, pair);
    copy_pair(pair, to);
    to[kWeights - 1] = g[1];
  }
  static void output(const __m512 (&m)[kPoints], __m512 (&y)[Outputs]) {
    __m512 pair[Outputs + 1];
    copy_pair(m, pair);
    Pair::output(pair, y);
#pragma GCC unroll 16
    for (long i = 0; i < Outputs; ++i) y[i] += m[Outputs + 1 + i];
  }
  static void gradient(const __m512 (&dy)[Outputs], __m512 (&to)[kPoints]) {
    __m512 pair[Outputs + 1];
    Pair::gradient(dy, pair);
    join(
        pair, [&](long i) { return dy[i]; }, to);
  }
  static void weight_gradient(const __m512 (&m)[kWeights], __m512 (&dg)[3]) {
    __m512 pair[Outputs + 1], ends[2];
    copy_pair(m, pair);
    Pair::weight_gradient(pair, ends);
    dg[0] = ends[0];
    dg[1] = m[kWeights - 1];
    dg[2] = ends[1];
  }

 protected:
  // Copies the points of the pair of taps, the first ones.
  template <long From, long To>
  static void copy_pair(const __m512 (&from)[From], __m512 (&to)[To]) {
#pragma GCC unroll 16
    for (long i = 0; i <= Outputs; ++i) to[i] = from[i];
  }

  // The points of the pair of taps, and single(i) for those of tap 1.
  template <class F>
  static void join(const __m512 (&pair)[Outputs + 1], const F& single, __m512 (&to)[kPoints]) {
    copy_pair(pair, to);
#pragma GCC unroll 16
    for (long i = 0; i < Outputs; ++i) to[Outputs + 1 + i] = single(i);
  }
};

// Input gradients of stride 2, for a padding of 1: from Outputs + 1 values of dy, the gradients of twice as many pixels
// as Outputs. The first one is under tap 1 of the first value; each second one is under taps 2 and 0 of two values.
template <class Points, long Outputs>
struct StridedGradientTiles : StridedTiles<Points, Outputs> {
  using Base = StridedTiles<Points, Outputs>;
  using Base::kPoints;
  static constexpr long kTile = 2 * Outputs, kStep = Outputs, kWindow = Outputs + 1;

  static void input(const __m512 (&d)[kWindow], __m512 (&to)[kPoints]) {
    __m512 pair[Outputs + 1];
    Base::Pair::input(d, pair);
    Base::join(
        pair, [&](long i) { return d[i]; }, to);
  }
  static void output(const __m512 (&m)[kPoints], __m512 (&y)[kTile]) {
    __m512 pair[Outputs + 1], odd[Outputs];
    Base::copy_pair(m, pair);
    Base::Pair::output(pair, odd);
#pragma GCC unroll 16
    for (long i = 0; i < Outputs; ++i) {
      y[2 * i] = m[Outputs + 1 + i];
      y[2 * i + 1] = odd[i];
    }
  }
};

using TilesOf2 = UnitStrideTiles<FourPoints, 2>;
using TilesOf4 = UnitStrideTiles<SixPoints, 4>;
using TilesOf7 = UnitStrideTiles<NinePoints, 7>;

// Outputs, or input gradients, of a convolution.
template <class Number, class Tiles>
struct TileLoops {
  using Stored = typename Number::Stored;
  using Factor = typename Number::Factor;
  using Place = TilePlace<Tiles::kTile>;
  static constexpr long kTile = Tiles::kTile, kPoints = Tiles::kPoints, kWeights = Tiles::kWeights,
                        kPair = Number::kPair;

  static long packed_step(long depth) { return depth * kTileOutputs + kTilePadding; }

  template <class F>
  static void each_tile(const TileBlock& b, const F& f) {
    Place at(b.tiles, 0);
    for (long t = 0; t < b.tiles.count; ++t, at.next()) f(at, t);
  }

  static auto window_at(const TileBlock& b, const Place& at) {
    return Window<Number, Tiles::kWindow, Tiles::kStep>(b.x, at.image, at.row / kTile * Tiles::kStep - b.top,
                                                        at.column / kTile * Tiles::kStep - b.left);
  }

  static void transform_tile(const TileBlock& b, const Place& at, long t) {
    const auto window = window_at(b, at), next = window_at(b, at.following());
    Factor* const to = static_cast<Factor*>(b.transformed) + t * b.x.channels;
    for (long c = 0; c < b.x.channels; c += 16) {
      next.prefetch(c);
      transform<kPoints>(
          window, c, [](const auto& d, auto& line) { Tiles::input(d, line); },
          [&](long k, __m512 v) { Number::store(to + k * b.transformed_step * kPair + c, v); });
    }
  }

  static void write_tile(const TileBlock& b, const Place& at, long t, long o) {
    const Place following = at.following();
    const Window<Number, kTile, kTile> next({b.y, b.out_h, b.out_w, b.out}, following.image, following.row,
                                            following.column);
    for (long half = 0; half < kTileOutputs; half += 16) {
      next.prefetch(o + half);
      const float* const m = b.products + t * kTileOutputs + half;
      __m512 rows[kTile][kPoints];
      for (long q = 0; q < kPoints; ++q) {
        __m512 column[kPoints], sums[kTile];
#pragma GCC unroll 16
        for (long p = 0; p < kPoints; ++p) column[p] = _mm512_loadu_ps(m + (p * kPoints + q) * b.products_step);
        Tiles::output(column, sums);
#pragma GCC unroll 16
        for (long p = 0; p < kTile; ++p) rows[p][q] = sums[p];
      }
      const __m512 bias = b.bias ? _mm512_loadu_ps(b.bias + o + half) : _mm512_setzero_ps();
      const __m512 least = _mm512_set1_ps(b.relu ? 0.0f : -__builtin_inff());
      Stored* const y = static_cast<Stored*>(b.y) + (at.image * b.out + o + half) * b.out_h * b.out_w;
      for (long p = 0; p < kTile && at.row + p < b.out_h; ++p) {
        __m512 values[kTile];
        Tiles::output(rows[p], values);
        Stored* const to = y + ((at.row + p) * b.out_w + at.column) * 16;
#pragma GCC unroll 16
        for (long q = 0; q < kTile; ++q)  // this order of operands keeps NaN
          if (at.column + q < b.out_w) Number::store(to + q * 16, _mm512_max_ps(least, values[q] + bias));
      }
    }
  }

  static void transform_inputs(const TileBlock& b) {
    each_tile(b, [&](const Place& at, long t) { transform_tile(b, at, t); });
  }

  static void multiply_tiles(const TileBlock& b, const void* weights, long first, long channels) {
    const long depth = channels / kPair, row = b.x.channels / kPair;
    for (long k = 0; k < kPoints * kPoints; ++k) {
      const long weight = Tiles::weight_of(k / kPoints) * kWeights + Tiles::weight_of(k % kPoints);
      const uint32_t* u = static_cast<const uint32_t*>(weights) + weight * packed_step(depth);
      const uint32_t* v = static_cast<const uint32_t*>(b.transformed) + k * b.transformed_step + first / kPair;
      float* m = b.products + k * b.products_step;
      long t = 0;
      const auto rows = [&](auto multiplied, long step) {
        multiplied(v + t * row, row, 1, u, 16, 32, depth, first > 0, m + t * kTileOutputs);
        t += step;
      };
      // Four rows alone would wait for their sums, so 16 are 8 and 8.
      for (long left; (left = b.tiles.count - t) > 0;)
        if (left >= 12 && left != 16)
          rows(multiply<Number, 12>, 12);
        else if (left >= 8)
          rows(multiply<Number, 8>, 8);
        else if (left >= 4)
          rows(multiply<Number, 4>, 4);
        else
          rows(multiply<Number, 1>, 1);
    }
  }

  static void write_outputs(const TileBlock& b, long o) {
    each_tile(b, [&](const Place& at, long t) { write_tile(b, at, t, o); });
  }

  // Transforms a word of 3 x 3 kernels, in each lane: weight(i, p, q) is that of value i in row p and column q.
  template <class Weight>
  static void pack_word(const Weight& weight, uint32_t* to, long step) {
    const auto kernel = [&](int i, const auto& write) {
      __m512 columns[kWeights][3];
#pragma GCC unroll 3
      for (int q = 0; q < 3; ++q) {
        const __m512 taps[3] = {weight(i, 0, q), weight(i, 1, q), weight(i, 2, q)};
        __m512 line[kWeights];
        Tiles::weights(taps, line);
#pragma GCC unroll 16
        for (long p = 0; p < kWeights; ++p) columns[p][q] = line[p];
      }
      for (long p = 0; p < kWeights; ++p) {
        __m512 line[kWeights];
        Tiles::weights(columns[p], line);
#pragma GCC unroll 16
        for (long q = 0; q < kWeights; ++q) write(p * kWeights + q, line[q]);
      }
    };
    write_words<Number, kWeights * kWeights>(to, step, kernel);
  }

  // Rows of dense weights are far apart, so the processor does not see their pattern.
  static void pack(const TileWeights& w) {
    for (long c = 0; c < w.count; c += 16)
      for (long half = 0; half < kTileOutputs; half += 16) {
        __m512 taps[9][16];  // lanes are output channels
        for (long tap = 0; tap < 9; ++tap) {
          const float* const from = w.dense + ((w.o + half) * 9 + tap) * w.in + w.first + c;
          if (c + 16 < w.count)
            for (long o = 0; o < 16; ++o) prefetch_line(from + o * 9 * w.in + 16);
          transpose(from, 9 * w.in, taps[tap]);
        }
        for (long i = 0; i < 16; i += kPair)
          pack_word([&](long k, int p, int q) { return taps[p * 3 + q][i + k]; },
                    static_cast<uint32_t*>(w.packed) + (c + i) / kPair * kTileOutputs + half,
                    packed_step(w.count / kPair));
      }
  }

  // The kernel is rotated by 180 degrees.
  static void pack_transposed(const TileWeights& w) {
    constexpr long kAhead = 6 * kPair;
    for (long c = 0; c < w.count; c += kPair) {
      const float* const dense = w.dense + (w.first + c) * 9 * w.out + w.o;
      if (c + kAhead < w.count)
        for (long row = kAhead * 9; row < (kAhead + kPair) * 9; ++row)
          for (long half = 0; half < kTileOutputs; half += 16) prefetch_line(dense + row * w.out + half);
      for (long half = 0; half < kTileOutputs; half += 16)
        pack_word(
            [&](long k, int p, int q) { return _mm512_loadu_ps(dense + (k * 9 + (2 - p) * 3 + 2 - q) * w.out + half); },
            static_cast<uint32_t*>(w.packed) + c / kPair * kTileOutputs + half, packed_step(w.count / kPair));
    }
  }

  static constexpr PassKernels table(void (*pack_weights)(const TileWeights&)) {
    return {.tile = kTile,
            .products = kPoints * kPoints,
            .weights = kWeights * kWeights,
            .pair = kPair,
            .least_block = 16,
            .pack = pack_weights,
            .transform_inputs = transform_inputs,
            .multiply = multiply_tiles,
            .write_outputs = write_outputs};
  }
};

template <class Number, class Tiles, class WeightTiles, class GradientTiles = Tiles>
constexpr TileKernels tile_kernels() {
  return {.stride = Tiles::kStep / Tiles::kTile,
          .forward = TileLoops<Number, Tiles>::table(TileLoops<Number, Tiles>::pack),
          .input_gradient = TileLoops<Number, GradientTiles>::table(TileLoops<Number, GradientTiles>::pack_transposed),
          .weights = WeightProducts<Number, WeightTiles>::kTable};
}

template <class Number, class Points, long Outputs, class WeightTiles = StridedTiles<Points, Outputs>>
constexpr TileKernels strided_kernels() {
  return tile_kernels<Number, StridedTiles<Points, Outputs>, WeightTiles, StridedGradientTiles<Points, Outputs>>();
}

}  // namespace
}  // namespace ddp
