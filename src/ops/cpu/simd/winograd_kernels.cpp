#include "ops/cpu/simd/winograd_kernels.h"

#include <immintrin.h>

namespace ddp {
namespace {

inline __m512 load(const uint16_t* p) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

inline __m256i rounded(__m512 v) { return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)); }
inline void store(uint16_t* p, __m512 v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded(v)); }

// to = B'd with B' = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1].
inline void transform_input(const __m512 (&d)[4], __m512 (&to)[4]) {
  to[0] = d[0] - d[2];
  to[1] = d[1] + d[2];
  to[2] = d[2] - d[1];
  to[3] = d[1] - d[3];
}

// to = Gg with G = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1].
inline void transform_weights(__m512 g0, __m512 g1, __m512 g2, __m512 (&to)[4]) {
  const __m512 half = _mm512_set1_ps(0.5f), ends = (g0 + g2) * half, middle = g1 * half;
  to[0] = g0;
  to[1] = ends + middle;
  to[2] = ends - middle;
  to[3] = g2;
}

// The 4 x 4 inputs of a tile; those outside the image are 0.
template <bool Inside>
inline void read_tile(const WinogradBlock& b, const uint16_t* x, long i, long j, __m512 (&columns)[4][4]) {
#pragma GCC unroll 4
  for (long p = 0; p < 4; ++p)
#pragma GCC unroll 4
    for (long q = 0; q < 4; ++q) {
      const bool there = Inside || (i + p >= 0 && i + p < b.h && j + q >= 0 && j + q < b.w);
      columns[q][p] = there ? load(x + ((i + p) * b.w + j + q) * 16) : _mm512_setzero_ps();
    }
}

void transform_tile(const WinogradBlock& b, long t) {
  const long image = (b.first + t) / (b.tile_rows * b.tile_columns),
             place = (b.first + t) % (b.tile_rows * b.tile_columns);
  const long i = place / b.tile_columns * 2 - b.top, j = place % b.tile_columns * 2 - b.left;
  const bool inside = i >= 0 && j >= 0 && i + 4 <= b.h && j + 4 <= b.w;
  for (long c = 0; c < b.in; c += 16) {
    const uint16_t* x = b.x + (image * b.in + c) * b.h * b.w;
    __m512 columns[4][4], half[4][4], both[4];
    inside ? read_tile<true>(b, x, i, j, columns) : read_tile<false>(b, x, i, j, columns);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) transform_input(columns[q], half[q]);
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      transform_input({half[0][p], half[1][p], half[2][p], half[3][p]}, both);
#pragma GCC unroll 4
      for (long q = 0; q < 4; ++q) store(b.transformed + ((p * 4 + q) * kWinogradTiles + t) * b.in + c, both[q]);
    }
  }
}

// products[row][32] = v[row][in] * u[in][32], with two channels in each multiply-add.
template <int Rows>
void multiply(const uint16_t* v, long in, const uint16_t* u, float* products) {
  __m512 left[Rows], right[Rows];
  for (int r = 0; r < Rows; ++r) left[r] = right[r] = _mm512_setzero_ps();
  for (long c = 0; c < in; c += 2, u += 64) {
    const __m512bh u0 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(u));
    const __m512bh u1 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(u + 32));
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      int pair;
      __builtin_memcpy(&pair, v + r * in + c, sizeof pair);
      const __m512bh both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
      left[r] = _mm512_dpbf16_ps(left[r], both, u0);
      right[r] = _mm512_dpbf16_ps(right[r], both, u1);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    _mm512_storeu_ps(products + r * kWinogradOutputs, left[r]);
    _mm512_storeu_ps(products + r * kWinogradOutputs + 16, right[r]);
  }
}

// y = act(A'mA + bias) with A' = [1 1 1 0; 0 1 -1 -1].
void write_tile(const WinogradBlock& b, long t, long o) {
  const long image = (b.first + t) / (b.tile_rows * b.tile_columns),
             place = (b.first + t) % (b.tile_rows * b.tile_columns);
  const long i = place / b.tile_columns * 2, j = place % b.tile_columns * 2;
  for (long half = 0; half < kWinogradOutputs; half += 16) {
    const float* m = b.products + t * kWinogradOutputs + half;
    const auto product = [&](long p, long q) {
      return _mm512_loadu_ps(m + (p * 4 + q) * kWinogradTiles * kWinogradOutputs);
    };
    __m512 rows[2][4];
#pragma GCC unroll 4
    for (long q = 0; q < 4; ++q) {
      const __m512 m1 = product(1, q), m2 = product(2, q);
      rows[0][q] = product(0, q) + m1 + m2;
      rows[1][q] = m1 - m2 - product(3, q);
    }
    const __m512 bias = b.bias ? _mm512_loadu_ps(b.bias + o + half) : _mm512_setzero_ps();
    const __m512 least = _mm512_set1_ps(b.relu ? 0.0f : -__builtin_inff());
    uint16_t* y = b.y + (image * b.out + o + half) * b.out_h * b.out_w;
    for (long p = 0; p < 2 && i + p < b.out_h; ++p) {
      const __m512* r = rows[p];
      uint16_t* to = y + ((i + p) * b.out_w + j) * 16;
      store(to, _mm512_max_ps(least, r[0] + r[1] + r[2] + bias));  // this order of operands keeps NaN
      if (j + 1 < b.out_w) store(to + 16, _mm512_max_ps(least, r[1] - r[2] - r[3] + bias));
    }
  }
}

// Transforms a 3 x 3 kernel into 16 factors, in each lane.
template <class Weight, class Write>
void transform_weight_tile(const Weight& weight, const Write& write) {
  __m512 columns[3][4], both[4];
  for (int q = 0; q < 3; ++q) transform_weights(weight(0, q), weight(1, q), weight(2, q), columns[q]);
  for (int p = 0; p < 4; ++p) {
    transform_weights(columns[0][p], columns[1][p], columns[2][p], both);
    for (int q = 0; q < 4; ++q) write(p * 4 + q, both[q]);
  }
}

}  // namespace

void winograd_block(const WinogradBlock& b) {
  for (long t = 0; t < b.count; ++t) transform_tile(b, t);
  for (long o = 0; o < b.out; o += kWinogradOutputs) {
    for (long k = 0; k < kWinogradProducts; ++k) {
      const uint16_t* u = b.weights + (o * kWinogradProducts + k * kWinogradOutputs) * b.in;
      const uint16_t* v = b.transformed + k * kWinogradTiles * b.in;
      float* m = b.products + k * kWinogradTiles * kWinogradOutputs;
      long t = 0;
      for (; t + 12 <= b.count; t += 12) multiply<12>(v + t * b.in, b.in, u, m + t * kWinogradOutputs);
      for (; t + 4 <= b.count; t += 4) multiply<4>(v + t * b.in, b.in, u, m + t * kWinogradOutputs);
      for (; t < b.count; ++t) multiply<1>(v + t * b.in, b.in, u, m + t * kWinogradOutputs);
    }
    for (long t = 0; t < b.count; ++t) write_tile(b, t, o);
  }
}

// Lanes are input channels. Two adjacent input channels form a pair.
void winograd_weights(const float* dense, long in, long o, uint16_t* packed) {
  const __m256i pairs = _mm256_setr_epi32(0, 32, 64, 96, 128, 160, 192, 224);
  for (long out = 0; out < kWinogradOutputs; ++out)
    for (long c = 0; c < in; c += 16) {
      const float* from = dense + (o + out) * 9 * in + c;
      transform_weight_tile([&](int p, int q) { return _mm512_loadu_ps(from + (p * 3 + q) * in); },
                            [&](long k, __m512 v) {
                              uint16_t* to = packed + (k * in + c) * kWinogradOutputs + out * 2;
                              _mm256_i32scatter_epi32(to, pairs, rounded(v), 4);
                            });
    }
}

// Lanes are output channels of the transposed convolution. Two adjacent input channels are interleaved into pairs. The
// kernel is rotated by 180 degrees.
void winograd_transposed_weights(const float* dense, long out, long in, long c, uint16_t* packed) {
  for (long o = 0; o < out; o += 2)
    for (long half = 0; half < kWinogradOutputs; half += 16) {
      __m256i first[kWinogradProducts];
      const auto from = [&](long channel) {
        return
            [=](int p, int q) { return _mm512_loadu_ps(dense + (channel * 9 + (2 - p) * 3 + 2 - q) * in + c + half); };
      };
      transform_weight_tile(from(o), [&](long k, __m512 v) { first[k] = rounded(v); });
      transform_weight_tile(from(o + 1), [&](long k, __m512 v) {
        const __m512i low = _mm512_cvtepu16_epi32(first[k]);
        const __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded(v)), 16);
        _mm512_storeu_si512(packed + (k * out + o) * kWinogradOutputs + half * 2, _mm512_or_si512(low, high));
      });
    }
}

}  // namespace ddp
