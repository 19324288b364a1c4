#include "ops/cpu/tile_passes.h"

#include "core/error.h"
#include "ops/cpu/layout.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace ddp {
namespace {

constexpr int64_t kPartChannels = 128;  // input channels of weights that are packed in parts
constexpr int64_t kCache = 640 << 10;   // bytes of a block's transformed values and products
constexpr int64_t kWord = 4;            // bytes
constexpr int64_t kBlock = 16;          // channels

TileRange tiles_of(int64_t tile, const ImageShape& out, int64_t n) {
  const int64_t rows = ceil_div(out.h, tile), columns = ceil_div(out.w, tile);
  return {.tile_rows = rows, .tile_columns = columns, .first = 0, .count = n * rows * columns};
}

TileImages images_of(const Tensor& t) {
  return {.data = t.data, .h = t.shape.image.h, .w = t.shape.image.w, .channels = t.shape.image.c};
}

// Samples that have this number of tiles or more. A power of two.
int64_t samples_of(int64_t tiles, int64_t tile, const ImageShape& out) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(tiles, count_tiles(tile, out, 1)))));
}

int64_t round_up(int64_t count, int64_t multiple) { return ceil_div(count, multiple) * multiple; }

}  // namespace

int64_t count_tiles(int64_t tile, const ImageShape& out, int64_t n) { return tiles_of(tile, out, n).count; }

TilePass::TilePass(const Workers& workers, Scratch& scratch, const PassKernels& kernels, const Conv2dDesc& desc,
                   bool transposed)
    : workers_(workers),
      scratch_(scratch),
      kernels_(kernels),
      from_(transposed ? conv2d_output(desc) : desc.input),
      to_(transposed ? desc.input : conv2d_output(desc)),
      top_(desc.window.padding.top),
      left_(desc.window.padding.left) {
  if (transposed) {
    const bool strided = desc.window.stride > 1;  // then tiles begin under the middle of a window
    top_ = strided ? 0 : 2 - top_;
    left_ = strided ? 0 : 2 - left_;
  }
  constexpr int64_t kMostKept = 16 << 20;
  const int64_t bytes = packed_words(from_.c) * (to_.c / kTileOutputs) * kWord;
  const bool keeps = bytes <= kMostKept;
  while (keeps && block_ > kernels.least_block && item_words() * kWord > kCache) block_ -= kernels.least_block;
  if (keeps) {
    packed_ = Buffer(workers.device, bytes);
    scratch.reserve(workers.threads * item_words() * kWord);
  } else {
    const int64_t outputs = kernels.products * products_step() + packed_words(kPartChannels);
    scratch.reserve((transformed_words() + workers.threads * outputs) * kWord);
  }
}

int64_t TilePass::packed_words(int64_t channels) const {
  return kernels_.weights * (channels / kernels_.pair * kTileOutputs + kTilePadding);
}

int64_t TilePass::products_step() const { return block_ * kTileOutputs + kTilePadding; }

int64_t TilePass::transformed_words() const {
  return kernels_.products * (block_ * from_.c / kernels_.pair + kTilePadding);
}

int64_t TilePass::item_words() const { return transformed_words() + kernels_.products * products_step(); }

int64_t TilePass::slice() const {
  const int64_t blocks = keeps_weights() ? 4 : 1;  // a block that is not full costs little among four
  return samples_of(blocks * block_, kernels_.tile, to_);
}

void TilePass::bind(const float* weight) {
  weight_ = weight;
  stale_ = true;
}

void TilePass::run(const Tensor& from, const float* bias, bool relu, const Tensor& to) {
  if (keeps_weights() && std::exchange(stale_, false)) pack_all();
  const TileBlock block{.tiles = tiles_of(kernels_.tile, to_, from.shape.n),
                        .x = images_of(from),
                        .top = top_,
                        .left = left_,
                        .y = to.data,
                        .out_h = to_.h,
                        .out_w = to_.w,
                        .out = to_.c,
                        .bias = bias,
                        .relu = relu,
                        .transformed = nullptr,
                        .transformed_step = transformed_words() / kernels_.products,
                        .products = nullptr,
                        .products_step = products_step()};
  keeps_weights() ? run_tiles(block) : run_outputs(block);
}

// An item computes all outputs of a block of tiles.
void TilePass::run_tiles(const TileBlock& all) {
  const int64_t group = block_ * workers_.threads;
  for (int64_t start = 0; start < all.tiles.count; start += group)
    workers_.each(ceil_div(std::min(group, all.tiles.count - start), block_), [&](int64_t i) {
      float* const memory = static_cast<float*>(scratch_.data()) + i * item_words();
      TileBlock block = all;
      block.tiles.first = start + i * block_;
      block.tiles.count = std::min(block_, all.tiles.count - block.tiles.first);
      block.transformed = memory;
      block.products = memory + transformed_words();
      kernels_.transform_inputs(block);
      for (int64_t o = 0; o < to_.c; o += kTileOutputs) {
        kernels_.multiply(block, packed_.as<float>() + o / kTileOutputs * packed_words(from_.c), 0, from_.c);
        kernels_.write_outputs(block, o);
      }
    });
}

// An item packs the weights of 32 output channels, and computes these for a block of tiles.
void TilePass::run_outputs(const TileBlock& all) {
  constexpr int64_t kItemTiles = 8;
  float* const memory = static_cast<float*>(scratch_.data());
  const int64_t row_words = from_.c / kernels_.pair, outputs = to_.c / kTileOutputs;
  const int64_t item_words = kernels_.products * products_step() + packed_words(kPartChannels);
  TileBlock group = all;
  group.transformed = memory;
  for (int64_t start = 0; start < all.tiles.count; start += block_) {
    group.tiles.first = start;
    group.tiles.count = std::min(block_, all.tiles.count - start);
    workers_.each(ceil_div(group.tiles.count, kItemTiles), [&](int64_t i) {
      TileBlock block = group;
      block.tiles.first = start + i * kItemTiles;
      block.tiles.count = std::min(kItemTiles, group.tiles.count - i * kItemTiles);
      block.transformed = memory + i * kItemTiles * row_words;
      kernels_.transform_inputs(block);
    });
    for (int64_t first = 0; first < outputs; first += workers_.threads)
      workers_.each(std::min<int64_t>(workers_.threads, outputs - first), [&](int64_t i) {
        const int64_t o = (first + i) * kTileOutputs;
        float* const packed = memory + transformed_words() + i * item_words;
        TileBlock block = group;
        block.products = packed + packed_words(kPartChannels);
        for (int64_t c = 0; c < from_.c; c += kPartChannels) {
          const int64_t channels = std::min(kPartChannels, from_.c - c);
          pack(o, c, channels, packed);
          kernels_.multiply(block, packed, c, channels);
        }
        kernels_.write_outputs(block, o);
      });
  }
}

void TilePass::pack(int64_t o, int64_t first, int64_t count, void* packed) const {
  kernels_.pack(
      {.dense = weight_, .in = from_.c, .out = to_.c, .o = o, .first = first, .count = count, .packed = packed});
}

void TilePass::pack_all() {
  workers_.each(to_.c / kTileOutputs, [&](int64_t block) {
    pack(block * kTileOutputs, 0, from_.c, packed_.as<float>() + block * packed_words(from_.c));
  });
}

WeightGradientPass::WeightGradientPass(const Workers& workers, Scratch& scratch, const WeightKernels& kernels,
                                       const Conv2dDesc& desc, int64_t most)
    : workers_(workers),
      scratch_(scratch),
      kernels_(kernels),
      in_(desc.input.c),
      out_(conv2d_output(desc)),
      window_(desc.window) {
  const int64_t slice = std::min(most_tiles(), round_up(count_tiles(kernels.tile, out_, most), kernels.granule));
  scratch.reserve(words(slice) * kWord);
}

int64_t WeightGradientPass::slice() const { return samples_of(kernels_.least, kernels_.tile, out_); }

// Tiles of the largest slice.
int64_t WeightGradientPass::most_tiles() const {
  const int64_t values = kernels_.products * in_ + kernels_.gradient_products * out_.c;
  const int64_t tiles = kernels_.slice_bytes / (values * kWord / kernels_.pair);
  return std::max<int64_t>(tiles / kernels_.granule * kernels_.granule, kernels_.least);
}

int64_t WeightGradientPass::slice_tiles(int64_t tiles) const {
  return round_up(ceil_div(tiles, ceil_div(tiles, most_tiles())), kernels_.granule);
}

int64_t WeightGradientPass::step(int64_t slice) const { return slice / kernels_.pair * kBlock + kTilePadding; }

int64_t WeightGradientPass::words(int64_t slice) const {
  return (in_ * kernels_.products + out_.c * kernels_.gradient_products) / kBlock * step(slice);
}

void WeightGradientPass::run(const Tensor& x, const Tensor& dy, float* dweight, Gradient mode) {
  TileRange tiles = tiles_of(kernels_.tile, out_, x.shape.n);
  const int64_t all = tiles.count, slice = slice_tiles(all), in_blocks = in_ / kBlock, out_blocks = out_.c / kBlock;
  const int64_t x_block = kernels_.products * step(slice), dy_block = kernels_.gradient_products * step(slice);
  DDP_EXPECT(words(slice) * kWord <= static_cast<int64_t>(scratch_.bytes()));
  float* const transformed_x = static_cast<float*>(scratch_.data());
  float* const transformed_dy = transformed_x + in_blocks * x_block;
  for (; tiles.first < all; tiles.first += slice) {
    tiles.count = std::min(slice, all - tiles.first);
    workers_.each(in_blocks + out_blocks, [&](int64_t i) {
      if (i < in_blocks)
        return kernels_.transform_inputs({.tiles = tiles,
                                          .from = images_of(x),
                                          .channel = i * kBlock,
                                          .stride = window_.stride,
                                          .top = window_.padding.top,
                                          .left = window_.padding.left,
                                          .to = transformed_x + i * x_block,
                                          .step = step(slice)});
      const int64_t o = i - in_blocks;
      kernels_.transform_gradients({.tiles = tiles,
                                    .from = images_of(dy),
                                    .channel = o * kBlock,
                                    .stride = 1,
                                    .top = 0,
                                    .left = 0,
                                    .to = transformed_dy + o * dy_block,
                                    .step = step(slice)});
    });
    const int64_t items = out_.c / kernels_.outputs;
    workers_.each(in_blocks / 2 * items, [&](int64_t i) {
      const int64_t c = i / items * 2, o = i % items * kernels_.outputs / kBlock;
      kernels_.weight_gradient({.x = transformed_x + c * x_block,
                                .dy = transformed_dy + o * dy_block,
                                .x_block = x_block,
                                .dy_block = dy_block,
                                .step = step(slice),
                                .depth = ceil_div(tiles.count, kernels_.pair),
                                .dweight = dweight + o * kBlock * kernels_.kernel * kernels_.kernel * in_ + c * kBlock,
                                .in = in_,
                                .add = mode == Gradient::add || tiles.first > 0});
    });
  }
}

}  // namespace ddp
