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

// Transposes 16 x 16 words to rows that are `step` apart. May work in place.
void transpose_words(const uint32_t* from, uint32_t* to, long step) {
  __m512 columns[kSide];
  transpose(reinterpret_cast<const float*>(from), kSide, columns);
  for (long i = 0; i < kSide; ++i) _mm512_storeu_ps(reinterpret_cast<float*>(to + i * step), columns[i]);
}

void start_tiles() {
  _tile_loadconfig(&kTileConfig);
  asm volatile("" ::: "memory");  // GCC does not know that the instructions of tiles read memory
}

}  // namespace
}  // namespace ddp
