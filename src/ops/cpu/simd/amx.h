// The tile registers of AMX: a register holds 16 rows of 16 words, and one instruction adds the product of two of them
// to a third. Activations are dense (N,H,W,C), as in oneDNN's kernels for AMX. All names have internal linkage
// (kernels.h).
#pragma once

#include "ops/cpu/simd/bf16.h"
#include "ops/cpu/simd/tiles.h"

namespace ddp {
namespace {

constexpr long kSide = 16;  // rows of a register, and words of a row

// The operand of LDTILECFG (Intel's Architectures Software Developer's Manual, volume 2): 8 registers of 16 rows.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {kSide, kSide, kSide, kSide, kSide, kSide, kSide, kSide};
};
constexpr TileConfig kTileConfig;

// Of 16 x 16 words, in place.
void transpose(uint32_t* words) {
  __m512i r[kSide], t[kSide];
  for (long i = 0; i < kSide; ++i) r[i] = _mm512_loadu_si512(words + i * kSide);
#pragma GCC unroll 8
  for (long i = 0; i < kSide; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (long i = 0; i < kSide; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (long j = 0; j < 4; ++j) {
    const __m512i a = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x44), b = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xee),
                  c = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x44),
                  d = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xee);
    _mm512_storeu_si512(words + j * kSide, _mm512_shuffle_i32x4(a, c, 0x88));
    _mm512_storeu_si512(words + (4 + j) * kSide, _mm512_shuffle_i32x4(a, c, 0xdd));
    _mm512_storeu_si512(words + (8 + j) * kSide, _mm512_shuffle_i32x4(b, d, 0x88));
    _mm512_storeu_si512(words + (12 + j) * kSide, _mm512_shuffle_i32x4(b, d, 0xdd));
  }
}

void start_tiles() {
  _tile_loadconfig(&kTileConfig);
  asm volatile("" ::: "memory");  // GCC does not know that the instructions of tiles read memory
}

}  // namespace
}  // namespace ddp
