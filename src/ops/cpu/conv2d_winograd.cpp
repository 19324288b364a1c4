#include "ops/cpu/conv2d_winograd.h"

#include "core/error.h"
#include "device/buffer.h"
#include "ops/cpu/layout.h"
#include "ops/cpu/simd/winograd_kernels.h"

#include <algorithm>
#include <utility>

namespace ddp {

#ifdef DDP_X86_KERNELS
namespace {

bool has_avx512_bf16() { return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl"); }

// Scratch of one thread: transformed inputs, then products.
int64_t transformed_bytes(int64_t in) { return kWinogradProducts * kWinogradTiles * in * 2; }
int64_t thread_bytes(int64_t in) {
  return transformed_bytes(in) + kWinogradProducts * kWinogradTiles * kWinogradOutputs * 4;
}

// Computes act(b + w * x), or, if `transposed`, the gradient of the input from the gradient of the output.
class WinogradPass {
 public:
  WinogradPass(const Workers& workers, Scratch& scratch, const Conv2dDesc& desc, bool transposed)
      : workers_(workers),
        scratch_(scratch),
        from_(transposed ? conv2d_output(desc) : desc.input),
        to_(transposed ? desc.input : conv2d_output(desc)),
        top_(transposed ? 2 - desc.window.padding.top : desc.window.padding.top),
        left_(transposed ? 2 - desc.window.padding.left : desc.window.padding.left),
        transposed_(transposed),
        packed_(workers.device, kWinogradProducts * from_.c * to_.c * 2) {
    scratch.reserve(workers.threads * thread_bytes(from_.c));
  }

  void bind(const float* weight) {
    weight_ = weight;
    stale_ = true;
  }

  void run(const Tensor& from, const float* bias, bool relu, const Tensor& to) {
    if (std::exchange(stale_, false)) pack();
    const int64_t tile_rows = ceil_div(to_.h, 2), tile_columns = ceil_div(to_.w, 2),
                  tiles = from.shape.n * tile_rows * tile_columns;
    const int64_t group = kWinogradTiles * workers_.threads;
    for (int64_t start = 0; start < tiles; start += group)
      workers_.each(ceil_div(std::min(group, tiles - start), kWinogradTiles), [&](int64_t i) {
        std::byte* const memory = static_cast<std::byte*>(scratch_.data()) + i * thread_bytes(from_.c);
        const int64_t first = start + i * kWinogradTiles;
        winograd_block({.x = static_cast<const uint16_t*>(from.data),
                        .h = from_.h,
                        .w = from_.w,
                        .in = from_.c,
                        .y = static_cast<uint16_t*>(to.data),
                        .out_h = to_.h,
                        .out_w = to_.w,
                        .out = to_.c,
                        .top = top_,
                        .left = left_,
                        .tile_rows = tile_rows,
                        .tile_columns = tile_columns,
                        .first = first,
                        .count = std::min(kWinogradTiles, tiles - first),
                        .weights = packed_.as<uint16_t>(),
                        .bias = bias,
                        .relu = relu,
                        .transformed = reinterpret_cast<uint16_t*>(memory),
                        .products = reinterpret_cast<float*>(memory + transformed_bytes(from_.c))});
      });
  }

 private:
  void pack() {
    workers_.each(to_.c / kWinogradOutputs, [&](int64_t block) {
      const int64_t first = block * kWinogradOutputs;
      uint16_t* const packed = packed_.as<uint16_t>() + first * kWinogradProducts * from_.c;
      if (transposed_)
        winograd_transposed_weights(weight_, from_.c, to_.c, first, packed);
      else
        winograd_weights(weight_, from_.c, first, packed);
    });
  }

  Workers workers_;
  Scratch& scratch_;
  ImageShape from_, to_;
  int64_t top_, left_;
  bool transposed_;
  Buffer packed_;
  const float* weight_ = nullptr;
  bool stale_ = false;
};

class WinogradConv2d final : public Conv2d {
 public:
  WinogradConv2d(const Workers& workers, std::shared_ptr<Scratch> scratch, const Conv2dDesc& desc,
                 std::unique_ptr<Conv2d> fallback)
      : scratch_(std::move(scratch)),
        desc_(desc),
        fallback_(std::move(fallback)),
        forward_(workers, *scratch_, desc, false),
        data_(workers, *scratch_, desc, true) {}

  Format output_format() const override { return fallback_->output_format(); }

  void bind(const WeightData& weight, const WeightData& bias) override {
    bias_ = bias.f32;
    forward_.bind(weight.f32);
    data_.bind(weight.f32);
    fallback_->bind(weight, bias);
  }

  void forward(const Tensor& x, const Tensor& y) override {
    if (!suits_bf16_winograd(desc_, x.shape.n)) return fallback_->forward(x, y);
    check(x, y);
    forward_.run(x, desc_.bias ? bias_ : nullptr, desc_.relu, y);
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t*) override {
    fallback_->backward_weight(x, y, dy, dweight, dbias, mode);
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    if (!suits_bf16_winograd(desc_, dx.shape.n)) return fallback_->backward_input(dy, dx);
    check(dx, dy);
    data_.run(dy, nullptr, false, dx);
  }

 private:
  void check(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.dtype == DType::bf16 && y.dtype == DType::bf16);
    DDP_EXPECT(x.format == Format::blocked_channels(16) && y.format == Format::blocked_channels(16) &&
               x.shape.n == y.shape.n);
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == conv2d_output(desc_));
  }

  std::shared_ptr<Scratch> scratch_;
  Conv2dDesc desc_;
  std::unique_ptr<Conv2d> fallback_;
  WinogradPass forward_, data_;
  const float* bias_ = nullptr;
};

}  // namespace

bool suits_bf16_winograd(const Conv2dDesc& desc, int64_t n) {
  constexpr int64_t kMinTiles = 64;
  const auto& [kernel, stride, padding, dilation] = desc.window;
  if (kernel != 3 || stride != 1 || std::max({padding.top, padding.left, padding.bottom, padding.right}) > 2)
    return false;
  if (desc.input_format != Format::blocked_channels(16) || desc.input.c % kWinogradOutputs != 0 ||
      desc.out_channels % kWinogradOutputs != 0)
    return false;
  const ImageShape out = conv2d_output(desc);
  return n * ceil_div(out.h, 2) * ceil_div(out.w, 2) >= kMinTiles && has_avx512_bf16();
}

std::unique_ptr<Conv2d> make_bf16_winograd(const Workers& workers, std::shared_ptr<Scratch> scratch,
                                           const Conv2dDesc& desc, std::unique_ptr<Conv2d> fallback) {
  DDP_EXPECT(fallback->output_format() == Format::blocked_channels(16));
  return std::make_unique<WinogradConv2d>(workers, std::move(scratch), desc, std::move(fallback));
}
#else
bool suits_bf16_winograd(const Conv2dDesc&, int64_t) { return false; }

std::unique_ptr<Conv2d> make_bf16_winograd(const Workers&, std::shared_ptr<Scratch>, const Conv2dDesc&,
                                           std::unique_ptr<Conv2d> fallback) {
  return fallback;
}
#endif

}  // namespace ddp
