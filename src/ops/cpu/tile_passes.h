// Passes of 2D convolutions as products of tiles: Winograd's algorithm (Lavin and Gray, "Fast algorithms for
// convolutional neural networks", 2015), and the direct one, which has tiles of one output: for weight gradients, and
// on AMX for all passes. Activations are in blocks of 16 channels, or dense for the kernels of AMX, and numbers of
// input and output channels are multiples of 32. Results do not depend on the number of threads.
#pragma once

#include "device/buffer.h"
#include "device/scratch.h"
#include "ops/conv2d.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/simd/tile_kernels.h"

#include <cstdint>

namespace ddp {

// The number of tiles of n samples.
int64_t count_tiles(int64_t tile, const ImageShape& out, int64_t n);

// Computes act(b + w * x), or, if `transposed`, the gradient of the input from the gradient of the output, for windows
// of 3 x 3 of the kernels' stride. With a stride of 1 the padding is at most 2, with a stride of 2 that at the top and
// at the left is 1.
// Small packed weights are kept from bind to bind. Large ones, which would not stay in the cache, are packed in parts
// for each block of tiles.
class TilePass {
 public:
  TilePass(const Workers& workers, Scratch& scratch, const PassKernels& kernels, const Conv2dDesc& desc,
           bool transposed);

  // Samples for which a call fills blocks of tiles. A power of two.
  int64_t slice() const;

  void bind(const float* weight);  // as Conv2d::bind; comes before run()
  // `from` and `to` are different memory, of the type of the kernels. Overwrites the scratch.
  void run(const Tensor& from, const float* bias, bool relu, const Tensor& to);

 private:
  bool keeps_weights() const { return packed_.bytes() > 0; }
  int64_t packed_words(int64_t channels) const;  // of 32 output channels and `channels` input channels
  int64_t transformed_words() const;             // of a block
  int64_t products_step() const;
  int64_t item_words() const;  // of a block: transformed values and products
  void pack(int64_t o, int64_t first, int64_t count, void* packed) const;
  void pack_all();
  void run_tiles(const TileBlock& all);
  void run_outputs(const TileBlock& all);

  Workers workers_;
  Scratch& scratch_;
  const PassKernels& kernels_;
  ImageShape from_, to_;
  int64_t top_, left_;
  int64_t block_ = 64;  // tiles that are computed together
  Buffer packed_;
  const float* weight_ = nullptr;
  bool stale_ = false;
};

// Computes the gradient of the weights, in slices of the tiles. The slices depend on the shape only.
class WeightGradientPass {
 public:
  // For up to `most` samples.
  WeightGradientPass(const Workers& workers, Scratch& scratch, const WeightKernels& kernels, const Conv2dDesc& desc,
                     int64_t most);

  // Samples for which a call spends little of its time on the gradient itself. A power of two.
  int64_t slice() const;

  // x and dy have at most `most` samples and the type of the kernels. Overwrites the scratch.
  void run(const Tensor& x, const Tensor& dy, float* dweight, Gradient mode);

 private:
  int64_t most_tiles() const;
  int64_t slice_tiles(int64_t tiles) const;
  int64_t step(int64_t slice) const;   // words between products
  int64_t words(int64_t slice) const;  // of a transformed slice

  Workers workers_;
  Scratch& scratch_;
  const WeightKernels& kernels_;
  int64_t in_;
  ImageShape out_;
  Window2d window_;
};

}  // namespace ddp
