// The inner loops of conv2d_winograd.h, compiled for AVX512_BF16 only. Do not define inline functions here (kernels.h).
#pragma once

#include <cstdint>

namespace ddp {

inline constexpr long kWinogradTiles = 48;     // tiles of 2 x 2 outputs in a block
inline constexpr long kWinogradOutputs = 32;   // output channels that are computed together
inline constexpr long kWinogradProducts = 16;  // products per tile and pair of channels

// Tiles [first, first + count) of images in blocks of 16 channels. Tile t is in row t / tile_columns % tile_rows and
// column t % tile_columns of image t / (tile_columns * tile_rows).
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
  uint16_t* transformed;  // scratch: [kWinogradProducts][kWinogradTiles][in]
  float* products;        // scratch: [kWinogradProducts][kWinogradTiles][kWinogradOutputs]
};

void winograd_block(const WinogradBlock& block);

// Transforms the weights of the output channels [o, o + 32). `dense` is in the order O,H,W,I.
void winograd_weights(const float* dense, long in, long o, uint16_t* packed);
// The same for the transposed convolution: its output channels are the input channels [c, c + 32).
void winograd_transposed_weights(const float* dense, long out, long in, long c, uint16_t* packed);

}  // namespace ddp
