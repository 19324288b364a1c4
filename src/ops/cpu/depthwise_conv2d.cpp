#include "core/error.h"
#include "device/buffer.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/column_sums.h"
#include "ops/cpu/conv2d.h"
#include "ops/cpu/layout.h"

#include <algorithm>
#include <numeric>

namespace ddp {
namespace {

constexpr int64_t kBandElements = 64 * 1024;         // of x; they fit in the L2 cache
constexpr int64_t kItemProducts = int64_t{1} << 22;  // multiplications of an item
constexpr int64_t kMostSampleParts = 16;             // of the samples, for the weight gradient
constexpr int64_t kPartPositions = 512;              // of a part at least

// The taps that reach one position of the input gradient: `count` taps from `first`, each `step` from the one before.
// The last one reads output position `output`, the one before it output + distance.
struct ReachingTaps {
  int64_t first, count, step, output, distance;

  // `at`: position of the input, plus the padding before it.
  ReachingTaps(const Window2d& w, int64_t at) : first(0), count(0), step(w.stride / std::gcd(w.stride, w.dilation)) {
    distance = w.dilation * step / w.stride;
    while (first < std::min(step, w.kernel) && (at - first * w.dilation) % w.stride != 0) ++first;
    if (first < std::min(step, w.kernel)) count = (w.kernel - 1 - first) / step + 1;
    const int64_t last = first + (count - 1) * step;
    output = count > 0 ? (at - last * w.dilation) / w.stride : 0;  // exact
  }
  int64_t last() const { return first + (count - 1) * step; }
};

// Depthwise convolution of dense activations. The weights are copied to [p][q][c], so that vectors run over channels.
//
// The input gradient is a convolution of dy for each residue of the column modulo the stride: its taps are every
// stride-th tap of the window in reverse order, so it multiplies no zeros.
class DepthwiseConv2d final : public Conv2d {
 public:
  DepthwiseConv2d(const Workers& workers, std::shared_ptr<Scratch> scratch, DType activations, const Conv2dDesc& desc,
                  std::span<const int64_t> batch_sizes)
      : workers_(workers),
        scratch_(std::move(scratch)),
        activations_(activations),
        desc_(desc),
        out_(conv2d_output(desc)),
        channels_(desc.out_channels),
        taps_(desc.window.kernel * desc.window.kernel),
        max_batch_(batch_sizes.empty() ? 0 : *std::max_element(batch_sizes.begin(), batch_sizes.end())),
        kernels_(workers.kernels.activations(activations).dense),
        weights_(workers.device, sizeof(float) * taps_ * channels_) {
    const int64_t of_weights = desc.weight_gradient ? std::min(max_batch_, kMostSampleParts) * taps_ * channels_ : 0;
    scratch_->reserve(sizeof(float) *
                      std::max(of_weights, sums_bias(desc) ? column_gradient_floats(channels_) : int64_t{0}));
  }

  Format output_format() const override { return {}; }

  void bind(const WeightData& weight, const WeightData& bias) override {
    bias_ = bias.f32;
    each_weight([&](int64_t dense, int64_t by_tap) { weights_.as<float>()[by_tap] = weight.f32[dense]; });
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x, y);
    const auto& [kernel, stride, padding, dilation] = desc_.window;
    each_row(x.shape.n, out_.h, out_.w, [&](int64_t n, int64_t i) {
      const int64_t top = i * stride - padding.top;
      const int64_t bottom = top + desc_.window.extent();  // the first row that this one does not read
      const Interval p = valid_taps(top);
      kernels_.depthwise_row({.x = element(x, (n * desc_.input.h + top + p.first * dilation) * row_of(desc_.input)),
                              .x_row = dilation * row_of(desc_.input),
                              .width = desc_.input.w,
                              .next = bottom + stride <= desc_.input.h
                                          ? element(x, (n * desc_.input.h + bottom) * row_of(desc_.input))
                                          : nullptr,
                              .first = -padding.left,
                              .step = stride,
                              .tap = dilation,
                              .w = weights_.as<float>() + p.first * kernel * channels_,
                              .w_row = kernel * channels_,
                              .w_tap = channels_,
                              .rows = p.size(),
                              .taps = kernel,
                              .channels = channels_,
                              .y = element(y, (n * out_.h + i) * row_of(out_)),
                              .y_pixel = channels_,
                              .columns = out_.w,
                              .bias = desc_.bias ? bias_ : nullptr,
                              .relu = desc_.relu});
    });
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t*) override {
    check(x, dy);
    auto* const scratch = static_cast<float*>(scratch_->data());
    column_gradient(workers_, desc_.relu ? y : Tensor{}, dy, sums_bias(desc_) ? dbias : nullptr, mode, scratch);
    if (!dweight) return;
    const int64_t n = x.shape.n, part = samples_per_part(n), parts = ceil_div(n, part), size = taps_ * channels_;
    std::fill_n(scratch, parts * size, 0.0f);
    workers_.each(parts, [&](int64_t p) {
      for (int64_t i = p * part; i < std::min(n, (p + 1) * part); ++i) add_sample(x, dy, i, scratch + p * size);
    });
    for (int64_t p = 1; p < parts; ++p) workers_.kernels.flat.add(scratch + p * size, scratch, size);
    each_weight([&](int64_t dense, int64_t by_tap) {
      dweight[dense] = scratch[by_tap] + (mode == Gradient::add ? dweight[dense] : 0.0f);
    });
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    check(dx, dy);
    DDP_EXPECT(desc_.input_gradient);
    const Window2d& w = desc_.window;
    const auto& [height, width, channels] = desc_.input;
    each_row(dx.shape.n, height, width, [&](int64_t n, int64_t h) {
      const ReachingTaps rows(w, h + w.padding.top);
      // Rows of dy in ascending order, and of these the ones that exist.
      const int64_t missing = rows.output < 0 ? ceil_div(-rows.output, rows.distance) : 0;
      const int64_t end = out_.h <= rows.output ? 0 : (out_.h - 1 - rows.output) / rows.distance + 1;
      const Interval u{std::min(missing, rows.count), std::min(end, rows.count)};
      const int64_t bottom = rows.output + rows.count * rows.distance;  // the first row that this one does not read
      for (int64_t column = 0; column < std::min(w.stride, width); ++column) {
        const ReachingTaps columns(w, column + w.padding.left);
        const int64_t tap = (rows.last() - u.first * rows.step) * w.kernel + columns.last();
        const bool any = u.size() > 0 && columns.count > 0;
        kernels_.depthwise_row(
            {.x = any ? element(dy, (n * out_.h + rows.output + u.first * rows.distance) * row_of(out_)) : dy.data,
             .x_row = rows.distance * row_of(out_),
             .width = out_.w,
             .next = w.stride == 1 && bottom >= 0 && bottom < out_.h ? element(dy, (n * out_.h + bottom) * row_of(out_))
                                                                     : nullptr,
             .first = columns.output,
             .step = 1,
             .tap = columns.distance,
             .w = weights_.as<float>() + (any ? tap * channels : 0),
             .w_row = -rows.step * w.kernel * channels,
             .w_tap = -columns.step * channels,
             .rows = any ? u.size() : 0,
             .taps = columns.count,
             .channels = channels,
             .y = element(dx, ((n * height + h) * width + column) * channels),
             .y_pixel = w.stride * channels,
             .columns = ceil_div(width - column, w.stride),
             .bias = nullptr,
             .relu = false});
      }
    });
  }

 private:
  static int64_t row_of(const ImageShape& image) { return image.w * image.c; }

  void check(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.format == Format{} && y.format == Format{} && x.dtype == activations_ && y.dtype == activations_);
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == out_ && x.shape.n == y.shape.n);
    require(x.shape.n <= max_batch_, Exit::internal, "a convolution planned for up to {} samples was given {}",
            max_batch_, x.shape.n);
  }

  // The rows of the window at `top` that lie in the image.
  Interval valid_taps(int64_t top) const {
    const auto& [kernel, stride, padding, dilation] = desc_.window;
    const int64_t first = top < 0 ? ceil_div(-top, dilation) : 0;
    const int64_t end = top >= desc_.input.h ? 0 : (desc_.input.h - 1 - top) / dilation + 1;
    return {std::min(first, kernel), std::clamp(end, std::min(first, kernel), kernel)};
  }

  // Calls f(index in [c][p][q], index in [p][q][c]) for all weights, in blocks of channels that fit in the L1 cache.
  template <class F>
  void each_weight(F&& f) const {
    for (int64_t first = 0; first < channels_; first += 16)
      for (int64_t t = 0; t < taps_; ++t)
        for (int64_t c = first; c < std::min(channels_, first + 16); ++c) f(c * taps_ + t, t * channels_ + c);
  }

  // Calls row(n, i) for all rows of images with h rows of w positions.
  template <class F>
  void each_row(int64_t n, int64_t h, int64_t w, F&& row) const {
    const int64_t rows = std::clamp<int64_t>(kItemProducts / (w * channels_ * taps_), 1, n * h);
    workers_.each(ceil_div(n * h, rows), [&](int64_t item) {
      for (int64_t r = item * rows; r < std::min(n * h, (item + 1) * rows); ++r) row(r / h, r % h);
    });
  }

  // Samples of a part of the weight gradient: at most kMostSampleParts parts, of some positions at least.
  int64_t samples_per_part(int64_t n) const {
    return std::max(ceil_div(n, kMostSampleParts), ceil_div(kPartPositions, out_.h * out_.w));
  }

  // Adds the weight gradient of one sample to sums[p][q][c].
  void add_sample(const Tensor& x, const Tensor& dy, int64_t n, float* sums) const {
    const auto& [kernel, stride, padding, dilation] = desc_.window;
    const int64_t band = std::max<int64_t>(1, kBandElements / (stride * row_of(desc_.input)));
    for (int64_t i = 0; i < out_.h; i += band)
      kernels_.depthwise_weight_gradient({.x = element(x, n * desc_.input.elements()),
                                          .height = desc_.input.h,
                                          .width = desc_.input.w,
                                          .channels = channels_,
                                          .top = i * stride - padding.top,
                                          .first = -padding.left,
                                          .step = stride,
                                          .tap = dilation,
                                          .taps = kernel,
                                          .dy = element(dy, (n * out_.h + i) * row_of(out_)),
                                          .rows = std::min(band, out_.h - i),
                                          .columns = out_.w,
                                          .sums = sums});
  }

  Workers workers_;
  std::shared_ptr<Scratch> scratch_;
  DType activations_;
  Conv2dDesc desc_;
  ImageShape out_;
  int64_t channels_, taps_, max_batch_;
  const DenseKernels& kernels_;
  Buffer weights_;  // [p][q][c]
  const float* bias_ = nullptr;
};

}  // namespace

bool is_depthwise(const Conv2dDesc& d) { return d.groups > 1 && d.groups == d.input.c && d.groups == d.out_channels; }

std::unique_ptr<Conv2d> make_depthwise_conv2d(const Workers& workers, const std::shared_ptr<Scratch>& scratch,
                                              DType activations, const Conv2dDesc& desc,
                                              std::span<const int64_t> batch_sizes) {
  DDP_EXPECT(is_depthwise(desc) && desc.input_format == Format{});
  return std::make_unique<DepthwiseConv2d>(workers, scratch, activations, desc, batch_sizes);
}

}  // namespace ddp
