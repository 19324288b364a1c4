// Tiles of images and products of their transformed values, for the headers beside this one. All names have internal
// linkage (kernels.h).
#pragma once

#include "ops/cpu/simd/tile_kernels.h"

#include <immintrin.h>

#include <cstdint>

namespace ddp {
namespace {

// Calls f(k) for each k < Count. Unrolls the loop only if Count is small.
template <long Count, class F>
inline void each(const F& f) {
  if constexpr (Count <= 6) {
#pragma GCC unroll 6
    for (long k = 0; k < Count; ++k) f(k);
  } else {
#pragma GCC unroll 1
    for (long k = 0; k < Count; ++k) f(k);
  }
}

// The image, and the row and column of the first output of a tile of Tile x Tile outputs.
template <long Tile>
struct TilePlace {
  TilePlace(const TileRange& tiles, long t)
      : image((tiles.first + t) / (tiles.tile_rows * tiles.tile_columns)),
        row((tiles.first + t) / tiles.tile_columns % tiles.tile_rows * Tile),
        column((tiles.first + t) % tiles.tile_columns * Tile),
        rows(tiles.tile_rows * Tile),
        columns(tiles.tile_columns * Tile) {}

  void next() {
    column += Tile;
    if (column < columns) return;
    column = 0;
    row += Tile;
    if (row < rows) return;
    row = 0;
    ++image;
  }

  TilePlace following() const {
    TilePlace place = *this;
    place.next();
    return place;
  }

  long image, row, column;
  long rows, columns;  // of an image, filled up to whole tiles
};

// Into the L2 cache: the L1 cache waits for few lines at a time. Functions that only prefetch are inline, else GCC 12
// takes them for functions without an effect.
[[gnu::always_inline]] inline void prefetch_line(const void* line) {
  _mm_prefetch(static_cast<const char*>(line), _MM_HINT_T1);
}

// Size x Size pixels of an image from (row, column) on; those outside the image are 0. The next window is Step pixels
// further, or more for direct algorithms with a stride.
template <class Number, long Size, long Step>
class Window {
  using Stored = typename Number::Stored;

 public:
  Window(const TileImages& from, long image, long row, long column)
      : data_(static_cast<const Stored*>(from.data) + image * from.channels * from.h * from.w),
        plane_(from.h * from.w),
        row_(row),
        column_(column),
        h_(from.h),
        w_(from.w) {}

  // Calls column(q, pixels of column q) for 16 channels.
  template <class F>
  void each_column(long channel, const F& column) const {
    const Stored* const x = data_ + channel * plane_;
    if (row_ >= 0 && column_ >= 0 && row_ + Size <= h_ && column_ + Size <= w_) {
      const Stored* const first = x + (row_ * w_ + column_) * 16;
      each<Size>([&](long q) {
        __m512 d[Size];
#pragma GCC unroll 16
        for (long p = 0; p < Size; ++p) d[p] = Number::load(first + (p * w_ + q) * 16);
        column(q, d);
      });
      return;
    }
    const Stored* rows[Size];
    __mmask16 masks[Size];
#pragma GCC unroll 16
    for (long p = 0; p < Size; ++p) {
      const bool there = row_ + p >= 0 && row_ + p < h_;
      rows[p] = x + (there ? row_ + p : 0) * w_ * 16;
      masks[p] = there ? 0xffff : 0;
    }
    each<Size>([&](long q) {
      __m512 d[Size] = {};
      if (column_ + q >= 0 && column_ + q < w_)
#pragma GCC unroll 16
        for (long p = 0; p < Size; ++p) d[p] = Number::load(rows[p] + (column_ + q) * 16, masks[p]);
      column(q, d);
    });
  }

  // Prefetches what the window before it in its row lacks, or Step columns of that if windows are further apart:
  // windows are short, so the processor does not see their pattern. Windows of one pixel are read in order.
  [[gnu::always_inline]] void prefetch(long channel) const {
    if constexpr (Size == 1) return;
    column_ > 0 ? prefetch_last<Step>(channel) : prefetch_last<Size>(channel);
  }

 private:
  // Of the last Count columns.
  template <long Count>
  [[gnu::always_inline]] void prefetch_last(long channel) const {
    constexpr long kLine = 64 / (16 * sizeof(Stored));  // pixels
    const Stored* const pixels = data_ + channel * plane_ + (row_ * w_ + column_ + Size - Count) * 16;
#pragma GCC unroll 16
    for (long p = 0; p < Size; ++p)
#pragma GCC unroll 16
      for (long q = 0; q < Count + kLine - 1; q += kLine) prefetch_line(pixels + (p * w_ + q) * 16);
  }

  const Stored* data_;
  long plane_, row_, column_, h_, w_;
};

// Calls write(k, value) for the Points x Points transformed values of a window. line(values, result) transforms each
// column and then each row.
template <long Points, class Number, long Size, long Step, class F, class G>
inline void transform(const Window<Number, Size, Step>& window, long channel, const F& line, const G& write) {
  __m512 half[Points][Size];
  window.each_column(channel, [&](long q, const __m512(&d)[Size]) {
    __m512 values[Points];
    line(d, values);
#pragma GCC unroll 16
    for (long p = 0; p < Points; ++p) half[p][q] = values[p];
  });
  each<Points>([&](long p) {
    __m512 values[Points];
    line(half[p], values);
#pragma GCC unroll 16
    for (long q = 0; q < Points; ++q) write(p * Points + q, values[q]);
  });
}

// Stores the words k < Count, `step` words apart. values(i, write) calls write(k, v) for value i of each word.
template <class Number, long Count, class F>
inline void write_words(uint32_t* to, long step, const F& values) {
  if constexpr (Number::kPair == 1) {
    values(0, [&](long k, __m512 v) { Number::store_words(to + k * step, v, v); });
  } else {
    __m512 first[Count];
    values(0, [&](long k, __m512 v) { first[k] = v; });
    values(1, [&](long k, __m512 v) { Number::store_words(to + k * step, first[k], v); });
  }
}

// products[row][32] = sum over `depth` words of v[row] * u, for Rows rows. Words of v are v_next words apart, its rows
// v_row words. u is [depth][16], with two halves that are u_half words and steps that are u_next words apart.
template <class Number, int Rows>
inline void multiply(const uint32_t* v, long v_row, long v_next, const uint32_t* u, long u_half, long u_next,
                     long depth, bool add, float* products) {
  __m512 left[Rows], right[Rows];
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
    left[r] = add ? _mm512_loadu_ps(products + r * kTileOutputs) : _mm512_setzero_ps();
    right[r] = add ? _mm512_loadu_ps(products + r * kTileOutputs + 16) : _mm512_setzero_ps();
  }
  for (long c = 0; c < depth; ++c, v += v_next, u += u_next) {
    const __m512i u0 = _mm512_loadu_si512(u), u1 = _mm512_loadu_si512(u + u_half);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      const __m512i word = _mm512_set1_epi32(static_cast<int>(v[r * v_row]));
      left[r] = Number::multiply_add(left[r], word, u0);
      right[r] = Number::multiply_add(right[r], word, u1);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
    _mm512_storeu_ps(products + r * kTileOutputs, left[r]);
    _mm512_storeu_ps(products + r * kTileOutputs + 16, right[r]);
  }
}

// Transposes 16 rows of 16 values, which are `step` apart.
inline void transpose(const float* from, long step, __m512 (&to)[16]) {
  __m512 pairs[16], quads[16], halves[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    const __m512 a = _mm512_loadu_ps(from + i * step), b = _mm512_loadu_ps(from + (i + 1) * step);
    pairs[i] = _mm512_unpacklo_ps(a, b);
    pairs[i + 1] = _mm512_unpackhi_ps(a, b);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4)  // quads[i + k] has column k of each 128 bits, of four rows
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      const __m512d a = _mm512_castps_pd(pairs[i + k]), b = _mm512_castps_pd(pairs[i + 2 + k]);
      quads[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      quads[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      halves[8 * i + k] = _mm512_shuffle_f32x4(quads[8 * i + k], quads[8 * i + 4 + k], 0x88);
      halves[8 * i + 4 + k] = _mm512_shuffle_f32x4(quads[8 * i + k], quads[8 * i + 4 + k], 0xdd);
    }
    to[k] = _mm512_shuffle_f32x4(halves[k], halves[8 + k], 0x88);
    to[8 + k] = _mm512_shuffle_f32x4(halves[k], halves[8 + k], 0xdd);
    to[4 + k] = _mm512_shuffle_f32x4(halves[4 + k], halves[12 + k], 0x88);
    to[12 + k] = _mm512_shuffle_f32x4(halves[4 + k], halves[12 + k], 0xdd);
  }
}

}  // namespace
}  // namespace ddp
