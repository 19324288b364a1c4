// Winograd's algorithm (see tile_passes.h) for values of a type and a size of tiles. All names have internal linkage
// (kernels.h).
//
// y = A'((G g G') * (B' d B))A is the transposed form of dg = G'((A dy A') * (B' d B))G, so that weight gradients have
// the same matrices.
#pragma once

#include "ops/cpu/simd/tiles.h"
#include "ops/cpu/simd/weight_products.h"

namespace ddp {
namespace {

// F(2 x 2, 3 x 3): the points 0, 1, -1 and infinity.
struct TilesOf2 {
  static constexpr long kTile = 2, kPoints = 4;

  static void input(const __m512 (&d)[4], __m512 (&to)[4]) {  // B'
    to[0] = d[0] - d[2];
    to[1] = d[1] + d[2];
    to[2] = d[2] - d[1];
    to[3] = d[1] - d[3];
  }
  static void weights(__m512 g0, __m512 g1, __m512 g2, __m512 (&to)[4]) {  // G
    const __m512 half = _mm512_set1_ps(0.5f), ends = (g0 + g2) * half, middle = g1 * half;
    to[0] = g0;
    to[1] = ends + middle;
    to[2] = ends - middle;
    to[3] = g2;
  }
  static void output(const __m512 (&m)[4], __m512 (&y)[2]) {  // A'
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
  }
};

// F(4 x 4, 3 x 3): the points 0, a, -a, b, -b and infinity. With 11/16 and 3/2, weight gradients from transformed
// values in bf16 have an error of 0.011 of their norm; with 1 and 2 it is 0.025.
struct TilesOf4 {
  static constexpr long kTile = 4, kPoints = 6, kKernel = 3, kGradientPoints = 6;
  static constexpr float a = 11.0f / 16, b = 1.5f, a2 = a * a, b2 = b * b, a3 = a * a2, b3 = b * b2;
  static constexpr float kZero = 1 / (a2 * b2), kA = 1 / (2 * a2 * (a2 - b2)), kB = 1 / (2 * b2 * (b2 - a2));

  static __m512 number(float value) { return _mm512_set1_ps(value); }

  static void input(const __m512 (&d)[6], __m512 (&to)[6]) {
    const __m512 even = d[4] - number(b2) * d[2], odd = d[3] - number(b2) * d[1], even2 = d[4] - number(a2) * d[2],
                 odd2 = d[3] - number(a2) * d[1];
    to[0] = number(a2 * b2) * d[0] - number(a2 + b2) * d[2] + d[4];
    to[1] = even + number(a) * odd;
    to[2] = even - number(a) * odd;
    to[3] = even2 + number(b) * odd2;
    to[4] = even2 - number(b) * odd2;
    to[5] = number(a2 * b2) * d[1] - number(a2 + b2) * d[3] + d[5];
  }
  static void weights(__m512 g0, __m512 g1, __m512 g2, __m512 (&to)[6]) {
    const __m512 even = number(kA) * g0 + number(kA * a2) * g2, even2 = number(kB) * g0 + number(kB * b2) * g2;
    to[0] = number(kZero) * g0;
    to[1] = even + number(kA * a) * g1;
    to[2] = even - number(kA * a) * g1;
    to[3] = even2 + number(kB * b) * g1;
    to[4] = even2 - number(kB * b) * g1;
    to[5] = g2;
  }
  static void output(const __m512 (&m)[6], __m512 (&y)[4]) {
    const __m512 sum = m[1] + m[2], difference = m[1] - m[2], sum2 = m[3] + m[4], difference2 = m[3] - m[4];
    y[0] = m[0] + sum + sum2;
    y[1] = number(a) * difference + number(b) * difference2;
    y[2] = number(a2) * sum + number(b2) * sum2;
    y[3] = number(a3) * difference + number(b3) * difference2 + m[5];
  }
  static void gradient(const __m512 (&y)[4], __m512 (&to)[6]) {
    const __m512 even = y[0] + number(a2) * y[2], odd = number(a) * y[1] + number(a3) * y[3],
                 even2 = y[0] + number(b2) * y[2], odd2 = number(b) * y[1] + number(b3) * y[3];
    to[0] = y[0];
    to[1] = even + odd;
    to[2] = even - odd;
    to[3] = even2 + odd2;
    to[4] = even2 - odd2;
    to[5] = y[3];
  }
  static void weight_gradient(const __m512 (&m)[6], __m512 (&g)[3]) {
    const __m512 sum = m[1] + m[2], difference = m[1] - m[2], sum2 = m[3] + m[4], difference2 = m[3] - m[4];
    g[0] = number(kZero) * m[0] + number(kA) * sum + number(kB) * sum2;
    g[1] = number(kA * a) * difference + number(kB * b) * difference2;
    g[2] = number(kA * a2) * sum + number(kB * b2) * sum2 + m[5];
  }
};

template <class Number, class Tiles, class WeightTiles>
struct Winograd {
  using Stored = typename Number::Stored;
  using Factor = typename Number::Factor;
  using Place = TilePlace<Tiles::kTile>;
  static constexpr long kTile = Tiles::kTile, kPoints = Tiles::kPoints, kProducts = kPoints * kPoints,
                        kPair = Number::kPair;

  static long packed_step(long depth) { return depth * kTileOutputs + kTilePadding; }

  template <class F>
  static void each_tile(const WinogradBlock& b, const F& f) {
    Place at(b.tiles, 0);
    for (long t = 0; t < b.tiles.count; ++t, at.next()) f(at, t);
  }

  static void transform_tile(const WinogradBlock& b, const Place& at, long t) {
    const Window<Number, kPoints, kTile> window(b.x, at.image, at.row - b.top, at.column - b.left);
    Factor* const to = static_cast<Factor*>(b.transformed) + t * b.x.channels;
    for (long c = 0; c < b.x.channels; c += 16)
      transform<kPoints>(
          window, c, [](const auto& d, auto& line) { Tiles::input(d, line); },
          [&](long k, __m512 v) { Number::store(to + k * b.transformed_step * kPair + c, v); });
  }

  static void write_tile(const WinogradBlock& b, const Place& at, long t, long o) {
    for (long half = 0; half < kTileOutputs; half += 16) {
      const float* const m = b.products + t * kTileOutputs + half;
      __m512 rows[kTile][kPoints];
#pragma GCC unroll 6
      for (long q = 0; q < kPoints; ++q) {
        __m512 column[kPoints], sums[kTile];
#pragma GCC unroll 6
        for (long p = 0; p < kPoints; ++p) column[p] = _mm512_loadu_ps(m + (p * kPoints + q) * b.products_step);
        Tiles::output(column, sums);
#pragma GCC unroll 4
        for (long p = 0; p < kTile; ++p) rows[p][q] = sums[p];
      }
      const __m512 bias = b.bias ? _mm512_loadu_ps(b.bias + o + half) : _mm512_setzero_ps();
      const __m512 least = _mm512_set1_ps(b.relu ? 0.0f : -__builtin_inff());
      Stored* const y = static_cast<Stored*>(b.y) + (at.image * b.out + o + half) * b.out_h * b.out_w;
      for (long p = 0; p < kTile && at.row + p < b.out_h; ++p) {
        __m512 values[kTile];
        Tiles::output(rows[p], values);
        Stored* const to = y + ((at.row + p) * b.out_w + at.column) * 16;
#pragma GCC unroll 4
        for (long q = 0; q < kTile; ++q)  // this order of operands keeps NaN
          if (at.column + q < b.out_w) Number::store(to + q * 16, _mm512_max_ps(least, values[q] + bias));
      }
    }
  }

  static void transform_inputs(const WinogradBlock& b) {
    each_tile(b, [&](const Place& at, long t) { transform_tile(b, at, t); });
  }

  static void multiply_tiles(const WinogradBlock& b, const void* weights, long first, long channels) {
    const long depth = channels / kPair, row = b.x.channels / kPair;
    for (long k = 0; k < kProducts; ++k) {
      const uint32_t* u = static_cast<const uint32_t*>(weights) + k * packed_step(depth);
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

  static void write_outputs(const WinogradBlock& b, long o) {
    each_tile(b, [&](const Place& at, long t) { write_tile(b, at, t, o); });
  }

  // Transforms a word of 3 x 3 kernels, in each lane: weight(i, p, q) is that of value i in row p and column q.
  template <class Weight>
  static void pack_word(const Weight& weight, uint32_t* to, long step) {
    const auto kernel = [&](int i, const auto& write) {
      __m512 columns[kPoints][3];
#pragma GCC unroll 3
      for (int q = 0; q < 3; ++q) {
        __m512 line[kPoints];
        Tiles::weights(weight(i, 0, q), weight(i, 1, q), weight(i, 2, q), line);
#pragma GCC unroll 6
        for (long p = 0; p < kPoints; ++p) columns[p][q] = line[p];
      }
#pragma GCC unroll 6
      for (long p = 0; p < kPoints; ++p) {
        __m512 line[kPoints];
        Tiles::weights(columns[p][0], columns[p][1], columns[p][2], line);
#pragma GCC unroll 6
        for (long q = 0; q < kPoints; ++q) write(p * kPoints + q, line[q]);
      }
    };
    write_words<Number, kProducts>(to, step, kernel);
  }

  static void pack(const WinogradWeights& w) {
    for (long half = 0; half < kTileOutputs; half += 16)
      for (long c = 0; c < w.count; c += 16) {
        __m512 taps[9][16];  // lanes are output channels
        for (long tap = 0; tap < 9; ++tap)
          transpose(w.dense + ((w.o + half) * 9 + tap) * w.in + w.first + c, 9 * w.in, taps[tap]);
        for (long i = 0; i < 16; i += kPair)
          pack_word([&](long k, int p, int q) { return taps[p * 3 + q][i + k]; },
                    static_cast<uint32_t*>(w.packed) + (c + i) / kPair * kTileOutputs + half,
                    packed_step(w.count / kPair));
      }
  }

  // The kernel is rotated by 180 degrees.
  static void pack_transposed(const WinogradWeights& w) {
    for (long c = 0; c < w.count; c += kPair)
      for (long half = 0; half < kTileOutputs; half += 16)
        pack_word(
            [&](long k, int p, int q) {
              return _mm512_loadu_ps(w.dense + ((w.first + c + k) * 9 + (2 - p) * 3 + 2 - q) * w.out + w.o + half);
            },
            static_cast<uint32_t*>(w.packed) + c / kPair * kTileOutputs + half, packed_step(w.count / kPair));
  }

  static constexpr WinogradKernels kTable = {.tile = kTile,
                                             .products = kProducts,
                                             .pair = kPair,
                                             .pack = pack,
                                             .pack_transposed = pack_transposed,
                                             .transform_inputs = transform_inputs,
                                             .multiply = multiply_tiles,
                                             .write_outputs = write_outputs,
                                             .weights = WeightProducts<Number, WeightTiles>::kTable};
};

}  // namespace
}  // namespace ddp
