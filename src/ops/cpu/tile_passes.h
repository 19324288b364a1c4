// Passes of 2D convolutions as products of tiles: Winograd's algorithm (Lavin and Gray, "Fast algorithms for
// convolutional neural networks", 2015), and weight gradients by the direct algorithm. Activations are in blocks of 16
// channels, and numbers of input and output channels are multiples of 32. Results do not depend on the number of
// threads.
#pragma once

#include "device/buffer.h"
#include "device/scratch.h"
#include "ops/conv2d.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/simd/winograd_kernels.h"

#include <cstdint>

namespace ddp {

// Computes act(b + w * x), or, if `transposed`, the gradient of the input from the gradient of the output. Small packed
// weights are kept from bind to bind. Large ones, which would not stay in the cache, are packed in parts in each run.
class WinogradPass {
 public:
  WinogradPass(const Workers& workers, Scratch& scratch, const WinogradKernels& kernels, const Conv2dDesc& desc,
               bool transposed);

  void bind(const float* weight);  // as Conv2d::bind
  void run(const Tensor& from, const float* bias, bool relu, const Tensor& to);

 private:
  bool keeps_weights() const { return packed_.bytes() > 0; }
  int64_t packed_words(int64_t channels) const;  // of 32 output channels and `channels` input channels
  int64_t transformed_words() const;             // of a block
  void pack(int64_t o, int64_t first, int64_t count, void* packed) const;
  void pack_all();
  void run_tiles(const WinogradBlock& all);
  void run_outputs(const WinogradBlock& all);

  Workers workers_;
  Scratch& scratch_;
  const WinogradKernels& kernels_;
  ImageShape from_, to_;
  int64_t top_, left_;
  bool transposed_;
  Buffer packed_;
  const float* weight_ = nullptr;
  bool stale_ = false;
};

// Computes the gradient of the weights, in slices of the tiles. The slices depend on the shape only.
class WeightPass {
 public:
  // For up to `most` samples.
  WeightPass(const Workers& workers, Scratch& scratch, const WeightKernels& kernels, const Conv2dDesc& desc,
             int64_t most);

  void run(const Tensor& x, const Tensor& dy, float* dweight, Gradient mode);

 private:
  int64_t most_tiles() const;
  int64_t slice_tiles(int64_t tiles) const;
  int64_t step(int64_t slice) const;  // words

  Workers workers_;
  Scratch& scratch_;
  const WeightKernels& kernels_;
  int64_t in_;
  ImageShape out_;
  Window2d window_;
};

// The number of tiles of n samples.
int64_t count_tiles(int64_t tile, const ImageShape& out, int64_t n);

}  // namespace ddp
