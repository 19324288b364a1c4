// The inner loops of the resize, compiled once for each instruction set. All sets give the same bits.
#pragma once

#include <cstdint>

namespace ddp {

inline constexpr int kResizeBits = 22;         // of a weight behind the point: 2^22 is 1
inline constexpr int64_t kResizePadding = 16;  // bytes that a kernel may read behind a row
inline constexpr int64_t kResizeStrip = 8;     // most rows of one call of a first pass
inline constexpr int64_t kResizeBlock = 32;    // bytes that the second pass reads at once

// The input pixels of one output: `count` pixels from `start`, rounded up to a multiple of 4 by weights of 0. Their
// weights start at `weights`.
struct ResizeTaps {
  int64_t start = 0, count = 0, weights = 0;
};

struct ResizeKernels {
  // First pass over `rows` rows: to[r][x] = sum of input pixels times weights, for each of `outputs` outputs.
  using FirstPass = void(const ResizeTaps* taps, const int32_t* weights, int64_t outputs, const uint8_t* from,
                         int64_t stride, int64_t rows, uint8_t* const* to);
  FirstPass* grey;    // 1 byte a pixel, in and out; a weight stands once
  FirstPass* colour;  // 4 bytes a pixel in, 3 out; a weight stands 4 times; writes one byte behind the last pixel
  // Second pass: to[i] = sum of rows[t][i] times weights[t], for i < bytes. Reads the rows to a multiple of
  // kResizeBlock.
  void (*columns)(const uint8_t* const* rows, const int32_t* weights, int64_t taps, int64_t bytes, uint8_t* to);
};

// The kernels for this processor.
const ResizeKernels& best_resize_kernels();
// Those of `set` 0, 1, ...; null if the processor or the build does not have it. Set 0 runs everywhere.
const ResizeKernels* resize_kernels_of(int set);

}  // namespace ddp
