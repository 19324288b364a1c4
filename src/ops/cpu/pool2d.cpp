#include "core/error.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/layout.h"

#include <algorithm>
#include <vector>

namespace ddp {
namespace {

// Windows along one axis of an image. A global average has one window, of the size of the image. The windows of an
// adaptive average have kernel 0: their sizes differ.
struct Axis {
  int64_t kernel, stride, padding, input, output;

  // The inputs in the window of output i.
  Interval inputs_of(int64_t i) const {
    if (kernel == 0) return {i * input / output, ceil_div((i + 1) * input, output)};
    const int64_t first = i * stride - padding;
    return {std::max<int64_t>(0, first), std::min(input, first + kernel)};
  }
  // The outputs whose windows contain input h.
  Interval outputs_of(int64_t h) const {
    if (kernel == 0) return {h * output / input, ceil_div((h + 1) * output, input)};
    const int64_t past = h + padding - kernel;  // the last start, with padding, of a window that ends before h
    const int64_t first = past < 0 ? 0 : past / stride + 1;
    return {first, std::max(first, std::min(output, (h + padding) / stride + 1))};
  }
};

// For all formats, in f32 or bf16. All formats are [planes][h][w][inner], where inner is channels, channels x lanes, or
// a block of channels. Each position of dx is written once: averages gather it from all windows that contain it.
class CpuPool2d final : public Pool2d {
  static constexpr int64_t kMostLanes = 16;

 public:
  CpuPool2d(const Workers& workers, DType activations, const Pool2dDesc& desc)
      : workers_(workers),
        desc_(desc),
        type_(activations),
        kernels_(workers.kernels.activations(activations).pool),
        out_(pool2d_output(desc)) {
    const auto& [kernel, stride, padding, dilation] = desc.window;
    if (desc.kind == Pool2dDesc::Kind::global_average) {
      rows_ = {desc.input.h, 1, 0, desc.input.h, 1};
      columns_ = {desc.input.w, 1, 0, desc.input.w, 1};
    } else if (adaptive()) {
      rows_ = {0, 1, 0, desc.input.h, out_.h};
      columns_ = {0, 1, 0, desc.input.w, out_.w};
      row_weights_ = weights_of(rows_);
      column_weights_ = weights_of(columns_);
    } else {
      DDP_EXPECT(kernel > std::max({padding.top, padding.left, padding.bottom, padding.right}));
      DDP_EXPECT(desc.kind == Pool2dDesc::Kind::maximum || padding.none());
      rows_ = {kernel, stride, padding.top, desc.input.h, out_.h};
      columns_ = {kernel, stride, padding.left, desc.input.w, out_.w};
      if (maximum()) sums_.resize(static_cast<size_t>(workers_.threads * sums_of_plane()));
    }
    const int64_t block = desc.format.block;
    switch (desc.format.kind) {
      case Format::Kind::dense: inner_ = desc.input.c; break;
      case Format::Kind::batch_interleaved: inner_ = desc.input.c * block; break;
      case Format::Kind::blocked_channels: inner_ = block; break;
    }
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x, y);
    const auto pool = maximum() ? kernels_.maximum : kernels_.average;
    workers_.each(planes(y) * out_.h, [&](int64_t item) {
      const int64_t plane = item / out_.h;
      const Interval h = rows_.inputs_of(item % out_.h);
      for (int64_t j = 0; j < out_.w; ++j) {
        const Interval w = columns_.inputs_of(j);
        pool({.x = at(x, (plane * desc_.input.h + h.first) * desc_.input.w + w.first),
              .row = desc_.input.w * inner_,
              .column = inner_,
              .rows = h.size(),
              .columns = w.size(),
              .width = inner_,
              .scale = adaptive() ? 1 / static_cast<float>(h.size() * w.size()) : scale(),
              .y = at(y, item * out_.w + j)});
      }
    });
  }

  void backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx, const ReluBefore& relu) override {
    DDP_EXPECT(!relu.applies);
    check(dx, dy);
    if (maximum()) {
      check(x, y);
      return backward_maximum(x, y, dy, dx);
    }
    workers_.each(planes(dy) * desc_.input.h, [&](int64_t item) {
      const int64_t plane = item / desc_.input.h, h = item % desc_.input.h;
      const Interval i = rows_.outputs_of(h);
      for (int64_t w = 0; w < desc_.input.w; ++w) {
        const Interval j = columns_.outputs_of(w);
        const int64_t to = item * desc_.input.w + w;
        if (adaptive())
          kernels_.weighted({.x = at(dy, (plane * out_.h + i.first) * out_.w + j.first),
                             .row = out_.w * inner_,
                             .column = inner_,
                             .rows = i.size(),
                             .columns = j.size(),
                             .width = inner_,
                             .row_weights = row_weights_.data() + i.first,
                             .column_weights = column_weights_.data() + j.first,
                             .y = at(dx, to)});
        else
          kernels_.average({.x = at(dy, (plane * out_.h + i.first) * out_.w + j.first),
                            .row = out_.w * inner_,
                            .column = inner_,
                            .rows = i.size(),
                            .columns = j.size(),
                            .width = inner_,
                            .scale = scale(),
                            .y = at(dx, to)});
      }
    });
  }

 private:
  void backward_maximum(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx) {
    const int64_t all = planes(dy), together = std::min<int64_t>(all, workers_.threads);
    const int64_t in = desc_.input.h * desc_.input.w, out = out_.h * out_.w;
    for (int64_t first = 0; first < all; first += together)
      workers_.each(std::min(together, all - first), [&](int64_t i) {
        const int64_t plane = first + i;
        kernels_.maximum_gradient({.x = at(x, plane * in),
                                   .y = at(y, plane * out),
                                   .dy = at(dy, plane * out),
                                   .dx = at(dx, plane * in),
                                   .h = desc_.input.h,
                                   .w = desc_.input.w,
                                   .out_h = out_.h,
                                   .out_w = out_.w,
                                   .width = inner_,
                                   .kernel = desc_.window.kernel,
                                   .stride = desc_.window.stride,
                                   .top = desc_.window.padding.top,
                                   .left = desc_.window.padding.left,
                                   .sums = sums_.data() + i * sums_of_plane()});
      });
  }
  int64_t sums_of_plane() const { return desc_.window.kernel * desc_.input.w * kMostLanes; }

  bool maximum() const { return desc_.kind == Pool2dDesc::Kind::maximum; }
  bool adaptive() const { return desc_.kind == Pool2dDesc::Kind::adaptive_average; }
  static std::vector<float> weights_of(const Axis& axis) {  // of each window: 1 / its size
    std::vector<float> weights;
    for (int64_t i = 0; i < axis.output; ++i) weights.push_back(1 / static_cast<float>(axis.inputs_of(i).size()));
    return weights;
  }
  float scale() const { return 1.0f / static_cast<float>(rows_.kernel * columns_.kernel); }
  int64_t planes(const Tensor& t) const { return t.stored() / (t.shape.image.h * t.shape.image.w * inner_); }
  std::byte* at(const Tensor& t, int64_t place) const { return element(t, place * inner_); }
  void check(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.format == desc_.format && y.format == desc_.format && x.dtype == type_ && y.dtype == type_);
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == out_ && x.shape.n == y.shape.n);
  }

  Workers workers_;
  Pool2dDesc desc_;
  DType type_;
  const PoolKernels& kernels_;
  ImageShape out_;
  Axis rows_{}, columns_{};
  std::vector<float> row_weights_, column_weights_;  // of an adaptive average
  std::vector<float> sums_;                          // of rows of dx, for each thread
  int64_t inner_ = 1;
};

}  // namespace

std::unique_ptr<Pool2d> CpuOps::pool2d(const Pool2dDesc& desc, std::span<const int64_t>) {
  return std::make_unique<CpuPool2d>(workers_, activations_, desc);
}

}  // namespace ddp
