#include "ops/cpu/conv2d_winograd.h"

#include "core/error.h"
#include "device/buffer.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/layout.h"
#include "ops/cpu/simd/winograd_kernels.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ddp {

#ifdef DDP_X86_KERNELS
namespace {

constexpr int64_t kBlockTiles = 48;  // of a forward pass that are computed together
constexpr int64_t kWord = 4;         // bytes
constexpr int64_t kPadding = 16;  // words; products that are multiples of 4 KiB apart would share a place in the cache

const WinogradKernels& kernels_for(DType activations) {
  return activations == DType::bf16 ? kWinogradBf16 : kWinogradF32;
}

bool supported(const Workers& workers, DType activations) {
  if (activations == DType::bf16)
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw");
  return workers.kernels.widest_lanes == 16;
}

WinogradTiles tiles_of(const WinogradKernels& kernels, const ImageShape& out, int64_t n) {
  const int64_t rows = ceil_div(out.h, kernels.tile), columns = ceil_div(out.w, kernels.tile);
  return {.tile_rows = rows, .tile_columns = columns, .first = 0, .count = n * rows * columns};
}

WinogradImages images(const Tensor& t) {
  return {.data = t.data, .h = t.shape.image.h, .w = t.shape.image.w, .channels = t.shape.image.c};
}

// Computes act(b + w * x), or, if `transposed`, the gradient of the input from the gradient of the output.
class WinogradPass {
 public:
  WinogradPass(const Workers& workers, Scratch& scratch, const WinogradKernels& kernels, const Conv2dDesc& desc,
               bool transposed)
      : workers_(workers),
        scratch_(scratch),
        kernels_(kernels),
        from_(transposed ? conv2d_output(desc) : desc.input),
        to_(transposed ? desc.input : conv2d_output(desc)),
        top_(transposed ? 2 - desc.window.padding.top : desc.window.padding.top),
        left_(transposed ? 2 - desc.window.padding.left : desc.window.padding.left),
        transposed_(transposed),
        transformed_step_(kBlockTiles * from_.c / kernels.pair + kPadding),
        packed_(workers.device, kernels.products * words_of_output() * to_.c * kWord) {
    scratch.reserve(workers.threads * thread_words() * kWord);
  }

  void bind(const float* weight) {
    weight_ = weight;
    stale_ = true;
  }

  void run(const Tensor& from, const float* bias, bool relu, const Tensor& to) {
    if (std::exchange(stale_, false)) pack();
    const WinogradTiles tiles = tiles_of(kernels_, to_, from.shape.n);
    const int64_t group = kBlockTiles * workers_.threads;
    for (int64_t start = 0; start < tiles.count; start += group)
      workers_.each(ceil_div(std::min(group, tiles.count - start), kBlockTiles), [&](int64_t i) {
        float* const memory = static_cast<float*>(scratch_.data()) + i * thread_words();
        WinogradTiles block = tiles;
        block.first = start + i * kBlockTiles;
        block.count = std::min(kBlockTiles, tiles.count - block.first);
        kernels_.block({.tiles = block,
                        .x = images(from),
                        .top = top_,
                        .left = left_,
                        .y = to.data,
                        .out_h = to_.h,
                        .out_w = to_.w,
                        .out = to_.c,
                        .weights = packed_.data(),
                        .bias = bias,
                        .relu = relu,
                        .transformed = memory,
                        .transformed_step = transformed_step_,
                        .products = memory + kernels_.products * transformed_step_,
                        .products_step = kProductsStep});
      });
  }

 private:
  static constexpr int64_t kProductsStep = kBlockTiles * kWinogradOutputs + kPadding;

  int64_t words_of_output() const { return from_.c / kernels_.pair; }
  int64_t thread_words() const { return kernels_.products * (transformed_step_ + kProductsStep); }

  void pack() {
    workers_.each(to_.c / kWinogradOutputs, [&](int64_t block) {
      const int64_t first = block * kWinogradOutputs;
      void* const packed = packed_.as<float>() + first * kernels_.products * words_of_output();
      if (transposed_)
        kernels_.pack_transposed(weight_, from_.c, to_.c, first, packed);
      else
        kernels_.pack(weight_, from_.c, first, packed);
    });
  }

  Workers workers_;
  Scratch& scratch_;
  const WinogradKernels& kernels_;
  ImageShape from_, to_;
  int64_t top_, left_;
  bool transposed_;
  int64_t transformed_step_;
  Buffer packed_;
  const float* weight_ = nullptr;
  bool stale_ = false;
};

// Computes the gradient of the weights, in slices of the tiles. The slices depend on the shape only, so the result does
// not depend on the number of threads.
class WinogradWeightPass {
 public:
  WinogradWeightPass(const Workers& workers, Scratch& scratch, const WinogradKernels& kernels, const Conv2dDesc& desc,
                     int64_t most)
      : workers_(workers),
        scratch_(scratch),
        kernels_(kernels),
        in_(desc.input.c),
        out_(conv2d_output(desc)),
        padding_(desc.window.padding) {
    scratch.reserve(blocks() * block_words(std::min(most_tiles(), even(tiles_of(kernels, out_, most).count))) * kWord);
  }

  void run(const Tensor& x, const Tensor& dy, float* dweight, Gradient mode) {
    const WinogradTiles all = tiles_of(kernels_, out_, x.shape.n);
    const int64_t slice = slice_tiles(all.count), block = block_words(slice);
    float* const memory = static_cast<float*>(scratch_.data());
    float* const transformed_dy = memory + in_ / kLanes * block;
    WinogradTiles tiles = all;
    for (; tiles.first < all.count; tiles.first += slice) {
      tiles.count = std::min(slice, all.count - tiles.first);
      workers_.each(blocks(), [&](int64_t i) {
        const bool of_x = i < in_ / kLanes;
        (of_x ? kernels_.transform_inputs
              : kernels_.transform_gradients)({.tiles = tiles,
                                               .from = images(of_x ? x : dy),
                                               .channel = (of_x ? i : i - in_ / kLanes) * kLanes,
                                               .top = of_x ? padding_.top : 0,
                                               .left = of_x ? padding_.left : 0,
                                               .to = memory + i * block,
                                               .step = block / kernels_.products});
      });
      workers_.each(in_ / (2 * kLanes) * (out_.c / kLanes), [&](int64_t i) {
        const int64_t c = i / (out_.c / kLanes) * 2, o = i % (out_.c / kLanes);
        kernels_.weight_gradient({.x = memory + c * block,
                                  .dy = transformed_dy + o * block,
                                  .x_block = block,
                                  .step = block / kernels_.products,
                                  .depth = ceil_div(tiles.count, kernels_.pair),
                                  .dweight = dweight + o * kLanes * 9 * in_ + c * kLanes,
                                  .in = in_,
                                  .add = mode == Gradient::add || tiles.first > 0});
      });
    }
  }

 private:
  static constexpr int64_t kLanes = 16;

  int64_t blocks() const { return (in_ + out_.c) / kLanes; }

  static int64_t even(int64_t count) { return ceil_div(count, 2) * 2; }

  // Tiles of the largest slice. Transformed slices fit in the cache; small ones would not pay for the transformation of
  // the products.
  int64_t most_tiles() const {
    constexpr int64_t kSliceBytes = 2 << 20, kLeast = 128, kMost = 512;
    return std::clamp(kSliceBytes / (kernels_.products * (in_ + out_.c) * kWord / kernels_.pair) / 2 * 2, kLeast,
                      kMost);
  }

  int64_t slice_tiles(int64_t tiles) const { return even(ceil_div(tiles, ceil_div(tiles, most_tiles()))); }

  int64_t block_words(int64_t slice) const { return kernels_.products * (slice / kernels_.pair * kLanes + kPadding); }

  Workers workers_;
  Scratch& scratch_;
  const WinogradKernels& kernels_;
  int64_t in_;
  ImageShape out_;
  Padding padding_;
};

class WinogradConv2d final : public Conv2d {
 public:
  WinogradConv2d(const Workers& workers, std::shared_ptr<Scratch> scratch, DType activations, const Conv2dDesc& desc,
                 int64_t most, std::unique_ptr<Conv2d> fallback)
      : workers_(workers),
        scratch_(std::move(scratch)),
        activations_(activations),
        desc_(desc),
        fallback_(std::move(fallback)),
        forward_(workers, *scratch_, kernels_for(activations), desc, false) {
    DDP_EXPECT(!fallback_ || fallback_->output_format() == output_format());
    if (desc.input_gradient) data_.emplace(workers, *scratch_, kernels_for(activations), desc, true);
    if (desc.weight_gradient) weights_.emplace(workers, *scratch_, kernels_for(activations), desc, most);
  }

  Format output_format() const override { return Format::blocked_channels(16); }

  void bind(const WeightData& weight, const WeightData& bias) override {
    bias_ = bias.f32;
    forward_.bind(weight.f32);
    if (data_) data_->bind(weight.f32);
    if (fallback_) fallback_->bind(weight, bias);
  }

  void forward(const Tensor& x, const Tensor& y) override {
    if (!suits(x.shape.n)) return fallback_->forward(x, y);
    check(x, y);
    forward_.run(x, desc_.bias ? bias_ : nullptr, desc_.relu, y);
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t*) override {
    if (!suits(x.shape.n)) return fallback_->backward_weight(x, y, dy, dweight, dbias, mode);
    check(x, dy);
    if (desc_.relu) relu_backward(workers_, y, dy, dy);
    if (sums_bias(desc_)) sum_all_channels(workers_, dy, dbias, mode);
    if (weights_) weights_->run(x, dy, dweight, mode);
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    if (!suits(dx.shape.n)) return fallback_->backward_input(dy, dx);
    check(dx, dy);
    DDP_EXPECT(desc_.input_gradient);
    data_->run(dy, nullptr, false, dx);
  }

 private:
  bool suits(int64_t n) const {
    const bool suited = suits_own_winograd(workers_, activations_, desc_, n);
    require(suited || fallback_, Exit::internal, "a convolution was not planned for {} samples", n);
    return suited;
  }

  void check(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.dtype == activations_ && y.dtype == activations_);
    DDP_EXPECT(x.format == output_format() && y.format == output_format() && x.shape.n == y.shape.n);
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == conv2d_output(desc_));
  }

  Workers workers_;
  std::shared_ptr<Scratch> scratch_;
  DType activations_;
  Conv2dDesc desc_;
  std::unique_ptr<Conv2d> fallback_;
  WinogradPass forward_;
  std::optional<WinogradPass> data_;
  std::optional<WinogradWeightPass> weights_;
  const float* bias_ = nullptr;
};

}  // namespace

// Few tiles do not pay for reading the transformed weights.
bool suits_own_winograd(const Workers& workers, DType activations, const Conv2dDesc& desc, int64_t n) {
  constexpr int64_t kMinOutputs = 256;  // of all samples
  const auto& [kernel, stride, padding, dilation] = desc.window;
  if (kernel != 3 || stride != 1 || dilation != 1 || desc.groups != 1 || desc.dense) return false;
  if (std::max({padding.top, padding.left, padding.bottom, padding.right}) > 2) return false;
  if (desc.input_format != Format::blocked_channels(16) || desc.input.c % kWinogradOutputs != 0 ||
      desc.out_channels % kWinogradOutputs != 0)
    return false;
  if (!supported(workers, activations)) return false;
  const WinogradKernels& kernels = kernels_for(activations);
  return tiles_of(kernels, conv2d_output(desc), n).count * kernels.tile * kernels.tile >= kMinOutputs;
}

std::unique_ptr<Conv2d> make_winograd_conv2d(const Workers& workers, std::shared_ptr<Scratch> scratch,
                                             DType activations, const Conv2dDesc& desc, int64_t most,
                                             std::unique_ptr<Conv2d> fallback) {
  return std::make_unique<WinogradConv2d>(workers, std::move(scratch), activations, desc, most, std::move(fallback));
}
#else
bool suits_own_winograd(const Workers&, DType, const Conv2dDesc&, int64_t) { return false; }

std::unique_ptr<Conv2d> make_winograd_conv2d(const Workers&, std::shared_ptr<Scratch>, DType, const Conv2dDesc&,
                                             int64_t, std::unique_ptr<Conv2d> fallback) {
  return fallback;
}
#endif

}  // namespace ddp
