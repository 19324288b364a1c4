// Outputs and input gradients of 3x3 convolutions in bf16 on AMX, by the direct algorithm. Rows of the left factor are
// outputs, columns of the right one channels. All names have internal linkage (kernels.h).
#pragma once

#include "ops/cpu/simd/amx.h"

namespace ddp {
namespace {

struct AmxOutputs {
  static long packed_step(long channels) { return channels / 2 * kTileOutputs + kTilePadding; }

  static void pack(const TileWeights& w) {
    alignas(64) uint32_t words[kSide * kSide];  // output channels are rows
    for (long half = 0; half < kTileOutputs; half += kSide)
      for (long c = 0; c < w.count; c += 2 * kSide)
        for (long tap = 0; tap < 9; ++tap) {
          for (long o = 0; o < kSide; ++o) {
            const float* const from = w.dense + ((w.o + half + o) * 9 + tap) * w.in + w.first + c;
            const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + 16), _mm512_loadu_ps(from));
            _mm512_store_si512(words + o * kSide, reinterpret_cast<__m512i>(both));
          }
          transpose_words(words, packed(w, tap) + c / 2 * kTileOutputs + half, kTileOutputs);
        }
  }

  // The kernel is rotated by 180 degrees.
  static void pack_transposed(const TileWeights& w) {
    for (long tap = 0; tap < 9; ++tap)
      for (long c = 0; c < w.count; c += 2)
        for (long half = 0; half < kTileOutputs; half += kSide) {
          const float* const from = w.dense + ((w.first + c) * 9 + 8 - tap) * w.out + w.o + half;
          NumberBf16::store_words(packed(w, tap) + c / 2 * kTileOutputs + half, _mm512_loadu_ps(from),
                                  _mm512_loadu_ps(from + 9 * w.out));
        }
  }

  static uint32_t* packed(const TileWeights& w, long tap) {
    return static_cast<uint32_t*>(w.packed) + tap * packed_step(w.count);
  }

  // Copies the 9 pixels of each output (im2col).
  static void transform_inputs(const TileBlock& b) {
    const long words = b.x.channels / 2;
    TilePlace<1> at(b.tiles, 0);
    for (long t = 0; t < b.tiles.count; ++t, at.next())
      for (long tap = 0; tap < 9; ++tap) {
        const long row = at.row - b.top + tap / 3, column = at.column - b.left + tap % 3;
        const bool there = row >= 0 && row < b.x.h && column >= 0 && column < b.x.w;
        const uint32_t* const from =
            static_cast<const uint32_t*>(b.x.data) + ((at.image * b.x.h + row) * b.x.w + column) * words;
        uint32_t* const to = static_cast<uint32_t*>(b.transformed) + tap * b.transformed_step + t * words;
        for (long c = 0; c < words; c += kSide)
          _mm512_storeu_si512(to + c, there ? _mm512_loadu_si512(from + c) : _mm512_setzero_si512());
      }
  }

  // Registers 0 to 3 are sums of 32 outputs and 32 channels, 4 and 5 have inputs, and 6 and 7 weights. Rows behind the
  // last tile are computed from what the scratch has there, and not read.
  static void multiply(const TileBlock& b, const void* weights, long first, long channels) {
    constexpr long kProductRow = kTileOutputs * 4, kWeightRow = kTileOutputs * 4;  // bytes
    const long depth = channels / 2, row = b.x.channels / 2;
    start_tiles();
    for (long t = 0; t < b.tiles.count; t += 2 * kSide) {
      float* const upper = b.products + t * kTileOutputs;
      float* const lower = upper + kSide * kTileOutputs;
      if (first > 0) {
        _tile_loadd(0, upper, kProductRow);
        _tile_loadd(1, upper + kSide, kProductRow);
        _tile_loadd(2, lower, kProductRow);
        _tile_loadd(3, lower + kSide, kProductRow);
      } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
      }
      for (long tap = 0; tap < 9; ++tap) {
        const uint32_t* u = static_cast<const uint32_t*>(weights) + tap * packed_step(channels);
        const uint32_t* v =
            static_cast<const uint32_t*>(b.transformed) + tap * b.transformed_step + t * row + first / 2;
        for (long c = 0; c < depth; c += kSide, v += kSide, u += kSide * kTileOutputs) {
          _tile_loadd(4, v, row * 4);
          _tile_loadd(6, u, kWeightRow);
          _tile_dpbf16ps(0, 4, 6);
          _tile_loadd(7, u + kSide, kWeightRow);
          _tile_dpbf16ps(1, 4, 7);
          _tile_loadd(5, v + kSide * row, row * 4);
          _tile_dpbf16ps(2, 5, 6);
          _tile_dpbf16ps(3, 5, 7);
        }
      }
      _tile_stored(0, upper, kProductRow);
      _tile_stored(1, upper + kSide, kProductRow);
      _tile_stored(2, lower, kProductRow);
      _tile_stored(3, lower + kSide, kProductRow);
    }
    _tile_release();
  }

  static void write_outputs(const TileBlock& b, long o) {
    const __m512 least = _mm512_set1_ps(b.relu ? 0.0f : -__builtin_inff());
    TilePlace<1> at(b.tiles, 0);
    for (long t = 0; t < b.tiles.count; ++t, at.next()) {
      uint16_t* const y =
          static_cast<uint16_t*>(b.y) + ((at.image * b.out_h + at.row) * b.out_w + at.column) * b.out + o;
      for (long half = 0; half < kTileOutputs; half += 16) {
        const __m512 bias = b.bias ? _mm512_loadu_ps(b.bias + o + half) : _mm512_setzero_ps();
        const __m512 sum = _mm512_loadu_ps(b.products + t * kTileOutputs + half);
        NumberBf16::store(y + half, _mm512_max_ps(least, sum + bias));  // this order of operands keeps NaN
      }
    }
  }
};

}  // namespace
}  // namespace ddp
