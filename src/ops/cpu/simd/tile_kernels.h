// The inner loops of tile_passes.h, for its formats of activations. A word has 4 bytes: one f32 value, or
// a pair of bf16 values that are multiplied and added together. Do not define inline functions here (kernels.h).
#pragma once

namespace ddp {

inline constexpr long kTileOutputs = 32;  // output channels that are computed together
// Words between the values of a product and those of the next one: multiples of 4 KiB would share a place in the cache.
inline constexpr long kTilePadding = 16;

// Tiles [first, first + count) of images of h x w. Tile t is in row t / tile_columns % tile_rows and column
// t % tile_columns of image t / (tile_columns * tile_rows).
struct TileRange {
  long tile_rows, tile_columns;
  long first, count;
};

struct TileImages {
  const void* data;
  long h, w, channels;
};

// Computes act(bias + weights * x), where the window of the first tile begins `top` rows above x and `left` columns
// left of it: transforms the inputs, multiplies them with the weights of 32 output channels, and writes these outputs.
struct TileBlock {
  TileRange tiles;
  TileImages x;
  long top, left;
  void* y;
  long out_h, out_w, out;
  const float* bias;  // may be null
  bool relu;
  void* transformed;  // scratch, words: [product][count][in / pair], products are `transformed_step` words apart
  long transformed_step;
  // Scratch: [product][count][32], products are `products_step` floats apart. AMX has one product, and reads and writes
  // rows of the scratch up to a multiple of 32.
  float* products;
  long products_step;
};

// The weights between the output channels [o, o + 32) and the input channels [first, first + count) of a pass. For a
// transposed convolution, the outputs of the pass are its input channels.
struct TileWeights {
  const float* dense;  // in the order O,H,W,I of the convolution
  long in, out;        // of the pass
  long o, first, count;
  void* packed;  // words: [transformed value of a kernel][count / pair][32], and kTilePadding words behind each value
};

// Transforms 16 channels, from `channel` on, of inputs (windows with padding) or of gradients of outputs.
struct TileTransform {
  TileRange tiles;
  TileImages from;
  long channel;
  long stride, top, left;  // of inputs
  // Words: [product][ceil(count / pair)][16], products are `step` words apart. For AMX, zeros fill up the words of a
  // product to a multiple of 16, and the gradient's words are in transposed blocks of 16 x 16.
  void* to;
  long step;
};

// The gradient of the weights of 16 or 32 output channels (WeightKernels::outputs) and 32 input channels.
struct TileWeightGradient {
  const void* x;   // of TileTransform: two blocks of 16 input channels, which are x_block words apart
  const void* dy;  // and one or two blocks of 16 output channels, which are dy_block words apart
  long x_block, dy_block;
  long step;       // words between products
  long depth;      // words of a product and a channel
  float* dweight;  // of the first channels, in the order O,H,W,I
  long in;
  bool add;  // false: overwrites
};

// Weight gradients of convolutions with kernels of kernel x kernel, in tiles of tile x tile outputs.
struct WeightKernels {
  long tile, kernel;
  long products;           // of a tile, an input channel and an output channel
  long gradient_products;  // transformed values of a tile of dy: as many, or one that all products share
  long pair;               // values of a word
  long granule;            // slices have room for a multiple of this number of tiles
  // A slice has as many tiles as fit `slice_bytes` of transformed values, or `least` if that is more: fewer tiles would
  // spend their time on reading and writing the gradient.
  long slice_bytes, least;
  long outputs;  // channels that weight_gradient() computes
  void (*transform_inputs)(const TileTransform&);
  void (*transform_gradients)(const TileTransform&);
  void (*weight_gradient)(const TileWeightGradient&);
};

// Outputs or input gradients, in tiles of tile x tile pixels.
struct PassKernels {
  long tile;
  long products;     // of a tile, an input channel and an output channel
  long weights;      // transformed values of a kernel of 3 x 3: as many, or fewer if products share them
  long pair;         // values of a word
  long least_block;  // tiles that are computed together are a multiple of this
  void (*pack)(const TileWeights&);
  void (*transform_inputs)(const TileBlock&);
  // Products with packed weights of the input channels [first, first + channels). The first ones overwrite, others add.
  void (*multiply)(const TileBlock&, const void* weights, long first, long channels);
  void (*write_outputs)(const TileBlock&, long o);  // y of the output channels [o, o + 32)
};

// All passes of convolutions of 3 x 3 with a stride, by Winograd's algorithm, or with tiles of one output by the direct
// one. For a stride of 2, the padding at the top and at the left is 1.
struct TileKernels {
  long stride;
  PassKernels forward, input_gradient;
  WeightKernels weights;
};

// Tiles of 2 x 2, 4 x 4 and 7 x 7 outputs. These need AVX-512: activations in f32, and in bf16 for products of f32.
extern const TileKernels kTiles4F32, kTiles7F32, kTiles4Wide, kTiles7Wide;
extern const TileKernels kStrided4F32, kStrided7F32, kStrided4Wide, kStrided7Wide;  // stride 2
extern const TileKernels kTiles2Bf16, kStrided2Bf16;                                // these need AVX512_BF16
extern const TileKernels kTiles7Rounded;  // as kTiles7Wide, rounded by the processor: needs AVX512_BF16
// The direct algorithm, for kernels of 1 x 1 or 3 x 3 and any stride.
extern const WeightKernels kDirectWeights1F32, kDirectWeights3F32;    // these need AVX-512
extern const WeightKernels kDirectWeights1Wide, kDirectWeights3Wide;  // these too
extern const WeightKernels kDirectWeights1Bf16, kDirectWeights3Bf16;  // these need AVX512_BF16
// The direct algorithm in bf16, for dense activations. These tables need AMX and AVX512_BF16.
extern const TileKernels kAmx3;  // 3 x 3, stride 1
extern const WeightKernels kAmxWeights1, kAmxWeights3;

}  // namespace ddp
