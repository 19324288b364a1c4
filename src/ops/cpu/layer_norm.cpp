#include "ops/layer_norm.h"

#include "core/error.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/layout.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

// What layer norm and group norm share. Threads take items, which depend on the shape only. Each item leaves a partial
// sum of dscale and of dshift for each channel; these are added in double, in the order of items.
class CpuLayerNormBase : public LayerNorm {
 public:
  CpuLayerNormBase(const Workers& workers, std::shared_ptr<Scratch> scratch, DType activations,
                   const LayerNormDesc& desc, std::span<const int64_t> batch_sizes)
      : workers_(workers),
        scratch_(std::move(scratch)),
        desc_(desc),
        type_(activations),
        channels_(desc.input.c),
        positions_(desc.input.h * desc.input.w),
        max_batch_(batch_sizes.empty() ? 0 : *std::max_element(batch_sizes.begin(), batch_sizes.end())) {}

  void bind(const float* scale, const float* shift) override {
    scale_ = scale;
    shift_ = shift;
  }

 protected:
  void check(const Tensor& t) const {
    DDP_EXPECT(t.format == Format{} && t.dtype == type_ && t.shape.image == desc_.input);
    require(t.shape.n <= max_batch_, Exit::internal, "a layer norm planned for up to {} samples was given {}",
            max_batch_, t.shape.n);
  }

  float* scratch() const { return static_cast<float*>(scratch_->data()); }

  // partials[item][dscale, dshift][channel]
  void add_partials(const float* partials, int64_t items, float* dscale, float* dshift, Gradient mode) const {
    float* const sums[] = {dscale, dshift};
    for (int64_t part = 0; part < 2; ++part)
      for (int64_t c = 0; sums[part] && c < channels_; ++c) {
        double total = mode == Gradient::add ? static_cast<double>(sums[part][c]) : 0.0;
        for (int64_t item = 0; item < items; ++item)
          total += static_cast<double>(partials[(2 * item + part) * channels_ + c]);
        sums[part][c] = static_cast<float>(total);
      }
  }

  Workers workers_;
  std::shared_ptr<Scratch> scratch_;
  LayerNormDesc desc_;
  DType type_;
  int64_t channels_, positions_, max_batch_;
  const float *scale_ = nullptr, *shift_ = nullptr;
};

// An item is some rows.
class CpuLayerNorm final : public CpuLayerNormBase {
 public:
  CpuLayerNorm(const Workers& workers, std::shared_ptr<Scratch> scratch, DType activations, const LayerNormDesc& desc,
               std::span<const int64_t> batch_sizes)
      : CpuLayerNormBase(workers, std::move(scratch), activations, desc, batch_sizes),
        kernels_(workers.kernels.activations(activations).layer_norm),
        saved_(workers.device, bytes_of_floats(max_batch_ * positions_ * 2)) {
    scratch_->reserve(bytes_of_floats(kMostItems * 2 * channels_));
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x);
    check(y);
    each_item(x.shape.n, [&](int64_t, int64_t first, int64_t rows) {
      kernels_.forward({.x = element(x, first * channels_),
                        .y = element(y, first * channels_),
                        .rows = rows,
                        .width = channels_,
                        .scale = scale_,
                        .shift = shift_,
                        .epsilon = desc_.epsilon,
                        .saved = saved_.as<float>() + 2 * first});
    });
  }

  void backward(const Tensor& x, const Tensor& dy, const Tensor& dx, float* dscale, float* dshift,
                Gradient mode) override {
    check(x);
    check(dy);
    if (dx.data) check(dx);
    const bool sums = dscale || dshift;
    each_item(x.shape.n, [&](int64_t item, int64_t first, int64_t rows) {
      float* const partial = scratch() + item * 2 * channels_;
      if (sums) std::fill_n(partial, 2 * channels_, 0.0f);
      kernels_.backward({.x = element(x, first * channels_),
                         .dy = element(dy, first * channels_),
                         .dx = dx.data ? element(dx, first * channels_) : nullptr,
                         .rows = rows,
                         .width = channels_,
                         .scale = scale_,
                         .saved = saved_.as<float>() + 2 * first,
                         .dscale = sums ? partial : nullptr,
                         .dshift = sums ? partial + channels_ : nullptr});
    });
    const int64_t rows = x.shape.n * positions_;
    add_partials(scratch(), ceil_div(rows, rows_of_item(rows)), dscale, dshift, mode);
  }

 private:
  static constexpr int64_t kItem = 16 * 1024;  // elements of an item, at least
  static constexpr int64_t kMostItems = 32;

  int64_t rows_of_item(int64_t rows) const {
    return std::max({int64_t{1}, kItem / channels_, ceil_div(rows, kMostItems)});
  }

  template <class F>
  void each_item(int64_t n, F&& item_of_rows) const {
    const int64_t rows = n * positions_, of_item = rows_of_item(rows);
    workers_.each(ceil_div(rows, of_item),
                  [&](int64_t item) { item_of_rows(item, item * of_item, std::min(of_item, rows - item * of_item)); });
  }

  const LayerNormKernels& kernels_;
  Buffer saved_;  // of each row (LayerNormForward::saved)
};

// An item is a sample. Its sums of each channel are those of a batch norm; a group's follow from them.
class CpuGroupNorm final : public CpuLayerNormBase {
 public:
  CpuGroupNorm(const Workers& workers, std::shared_ptr<Scratch> scratch, DType activations, const LayerNormDesc& desc,
               std::span<const int64_t> batch_sizes)
      : CpuLayerNormBase(workers, std::move(scratch), activations, desc, batch_sizes),
        sums_(workers.kernels.activations(activations).norm),
        kernels_(workers.kernels.activations(activations).layer_norm),
        width_(channels_ / desc.groups),
        saved_(workers.device, sizeof(Saved) * static_cast<size_t>(max_batch_ * desc.groups)) {
    DDP_EXPECT(channels_ % desc.groups == 0);
    scratch_->reserve(bytes_of_floats(max_batch_ * kColumns * channels_));
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x);
    check(y);
    workers_.each(x.shape.n, [&](int64_t sample) {
      const int64_t at = sample * positions_ * channels_;
      float* const center = column(sample, 0);
      float *s1 = center + channels_, *s2 = s1 + channels_, *mean = s2 + channels_, *factor = mean + channels_,
            *shift = factor + channels_;
      with_values(x, [&](const auto* values) {
        for (int64_t c = 0; c < channels_; ++c) center[c] = get(values[at + c]);
      });
      std::fill_n(s1, 2 * channels_, 0.0f);
      sums_.sum({.x = element(x, at), .rows = positions_, .width = channels_, .center = center, .s1 = s1, .s2 = s2});
      for (int64_t g = 0; g < desc_.groups; ++g) {
        const Saved saved = statistics(center, s1, s2, g * width_);
        saved_.as<Saved>()[sample * desc_.groups + g] = saved;
        for (int64_t c = g * width_; c < (g + 1) * width_; ++c) {
          mean[c] = saved.mean;
          factor[c] = scale_[c] * saved.inverse;
          shift[c] = shift_[c] - saved.rest * factor[c];
        }
      }
      sums_.forward({.x = element(x, at),
                     .skip = nullptr,
                     .y = element(y, at),
                     .rows = positions_,
                     .width = channels_,
                     .mean = mean,
                     .factor = factor,
                     .shift = shift,
                     .relu = false,
                     .activation = nullptr});
    });
  }

  void backward(const Tensor& x, const Tensor& dy, const Tensor& dx, float* dscale, float* dshift,
                Gradient mode) override {
    check(x);
    check(dy);
    if (dx.data) check(dx);
    const int64_t n = x.shape.n;
    float* const columns = scratch() + n * 2 * channels_;
    workers_.each(n, [&](int64_t sample) {
      const int64_t at = sample * positions_ * channels_;
      float *const t2 = scratch() + sample * 2 * channels_, *const t1 = t2 + channels_;
      float *const mean = columns + sample * 4 * channels_, *const of_dy = mean + channels_,
                   *const of_x = of_dy + channels_, *const constant = of_x + channels_;
      const Saved* const groups = saved_.as<Saved>() + sample * desc_.groups;
      for (int64_t c = 0; c < channels_; ++c) mean[c] = groups[c / width_].mean;
      std::fill_n(t2, 2 * channels_, 0.0f);
      sums_.backward_sum({.x = element(x, at),
                          .y = nullptr,
                          .more = nullptr,
                          .dy = element(dy, at),
                          .rows = positions_,
                          .width = channels_,
                          .mean = mean,
                          .factor = nullptr,
                          .shift = nullptr,
                          .activation = nullptr,
                          .t1 = t1,
                          .t2 = t2});
      for (int64_t g = 0; g < desc_.groups; ++g) {
        const Saved& saved = groups[g];
        double mean_g = 0, mean_product = 0;
        for (int64_t c = g * width_; c < (g + 1) * width_; ++c) {
          t2[c] = (t2[c] - saved.rest * t1[c]) * saved.inverse;
          mean_g += static_cast<double>(scale_[c]) * t1[c];
          mean_product += static_cast<double>(scale_[c]) * t2[c];
        }
        const auto values = static_cast<double>(positions_ * width_), inverse = static_cast<double>(saved.inverse);
        const double slope = -inverse * inverse * mean_product / values;
        for (int64_t c = g * width_; c < (g + 1) * width_; ++c) {
          of_dy[c] = scale_[c] * saved.inverse;
          of_x[c] = static_cast<float>(slope);
          constant[c] = static_cast<float>(-inverse * mean_g / values - slope * static_cast<double>(saved.rest));
        }
      }
      if (!dx.data) return;
      kernels_.group_gradient({.x = element(x, at),
                               .dy = element(dy, at),
                               .dx = element(dx, at),
                               .rows = positions_,
                               .width = channels_,
                               .mean = mean,
                               .of_dy = of_dy,
                               .of_x = of_x,
                               .constant = constant});
    });
    add_partials(scratch(), n, dscale, dshift, mode);
  }

 private:
  static constexpr int64_t kColumns = 6;  // rows of `channels` floats in the scratch, for each sample

  struct Saved {
    float mean, rest;  // the mean is their sum: a deviation may be small beside it
    float inverse;     // 1 / sqrt(var + epsilon)
  };

  float* column(int64_t sample, int64_t row) const { return scratch() + (sample * kColumns + row) * channels_; }

  // Of the group whose first channel is `first`, from the sums of x - center and of its square.
  Saved statistics(const float* center, const float* s1, const float* s2, int64_t first) const {
    const auto positions = static_cast<double>(positions_), width = static_cast<double>(width_);
    const auto mean_of = [&](int64_t c) { return center[c] + s1[c] / positions; };
    double mean = 0, squares = 0;
    for (int64_t c = first; c < first + width_; ++c) mean += mean_of(c) / width;
    for (int64_t c = first; c < first + width_; ++c) {
      const double distance = mean_of(c) - mean;
      squares += std::max(s2[c] - s1[c] / positions * s1[c], 0.0) + positions * distance * distance;
    }
    const auto rounded = static_cast<float>(mean);
    return {rounded, static_cast<float>(mean - rounded),
            static_cast<float>(1 / std::sqrt(squares / (positions * width) + static_cast<double>(desc_.epsilon)))};
  }

  const NormKernels& sums_;
  const LayerNormKernels& kernels_;
  int64_t width_;  // channels of a group
  Buffer saved_;   // [sample][group]
};

}  // namespace

std::unique_ptr<LayerNorm> CpuOps::layer_norm(const LayerNormDesc& desc, std::span<const int64_t> batch_sizes) {
  if (desc.groups == 0) return std::make_unique<CpuLayerNorm>(workers_, dnnl_.scratch, activations_, desc, batch_sizes);
  return std::make_unique<CpuGroupNorm>(workers_, dnnl_.scratch, activations_, desc, batch_sizes);
}

}  // namespace ddp
