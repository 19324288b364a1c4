// The inner loops of conv2d_winograd.h, compiled for AVX512_BF16. This header is read by a file compiled with wider
// instructions: keep inline functions out of it.
#pragma once

#include <cstdint>

namespace ddp {

inline constexpr long kWinogradTiles = 48;     // of 2 x 2 outputs, computed together
inline constexpr long kWinogradOutputs = 32;   // channels
inline constexpr long kWinogradProducts = 16;  // of a tile and a pair of channels

// Tiles [first, first + count) of the images in channels(16); tile t is column t % tile_columns, row t / tile_columns %
// tile_rows of image t / (tile_columns * tile_rows). `transformed` holds kWinogradProducts * kWinogradTiles * in
// values, `products` kWinogradProducts * kWinogradTiles * kWinogradOutputs.
struct WinogradBlock {
  const uint16_t* x;
  long h, w, in;
  uint16_t* y;
  long out_h, out_w, out;
  long top, left;  // padding
  long tile_rows, tile_columns;
  long first, count;
  const uint16_t* weights;  // [out / 32][product][in / 2][32][2]
  const float* bias;        // may be null
  bool relu;
  uint16_t* transformed;  // [product][tile][in]
  float* products;        // [product][tile][32]
};

void winograd_block(const WinogradBlock& block);

// Transforms the weights of the outputs [o, o + 32), from dense O,H,W,I of `out` and `in`.
void winograd_weights(const float* dense, long in, long o, uint16_t* packed);
// The same of the transposed convolution, whose outputs are the inputs [c, c + 32).
void winograd_transposed_weights(const float* dense, long out, long in, long c, uint16_t* packed);

}  // namespace ddp
