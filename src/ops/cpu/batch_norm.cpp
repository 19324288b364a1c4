#include "core/error.h"
#include "device/buffer.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/conv2d.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ddp {
namespace {

const NormKernels& norm_kernels_of(const Workers& workers, DType activations) {
#ifdef DDP_X86_KERNELS
  if (activations == DType::bf16 && multiplies_bf16(workers)) return kNormRounded;
#endif
  return workers.kernels.activations(activations).norm;
}

// For all formats, in f32 or bf16. Each pass runs one kernel over the rows of x (rows.h). Statistics are stored per
// column: each column of a channel has a copy. Columns past c have 0, so the padding of y and dx stays 0. A summing
// pass writes two partial sums per slot and column. They are added in double, in the order of slots.
class CpuBatchNorm final : public BatchNorm {
 public:
  CpuBatchNorm(const Workers& workers, DType activations, const BatchNormDesc& desc,
               std::span<const int64_t> batch_sizes)
      : workers_(workers),
        desc_(desc),
        type_(activations),
        kernels_(norm_kernels_of(workers, activations)),
        rows_(desc.input, desc.format),
        max_batch_(batch_sizes.empty() ? 0 : *std::max_element(batch_sizes.begin(), batch_sizes.end())),
        statistics_(workers.device, sizeof(float) * kStatistics * rows_.columns()) {
    DDP_EXPECT(!desc.add || !desc.activation.reads_input());
    int64_t slots = 0;  // a smaller batch can have more slots, because its last block is ragged
    for (int64_t n = 1; n <= max_batch_; ++n) slots = std::max(slots, rows_.slots(n));
    partials_ = Buffer(workers.device, sizeof(float) * slots * 2 * rows_.columns());
  }

  void bind(const float* scale, const float* shift) override {
    scale_ = scale;
    shift_ = shift;
  }

  void sum(const Tensor& x, const float* center, float* sums) override {
    check(x);
    fill_columns(kCenter, [&](int64_t c) { return center ? center[c] : 0.0f; });
    const int64_t n = x.shape.n;
    workers_.each(rows_.items(n), [&](int64_t item) {
      float* partial = clear_partial(item);
      rows_.each_run(item, n, [&](int64_t at, int64_t rows, int64_t column) {
        kernels_.sum({.x = element(x, at),
                      .rows = rows,
                      .width = rows_.width(),
                      .center = statistic(kCenter) + column,
                      .s1 = partial + column,
                      .s2 = partial + rows_.columns() + column});
      });
    });
    add_partials(n, sums, sums + desc_.input.c);
  }

  void begin_forward(const float* center, const float* sums, float count) override {
    const int64_t channels = desc_.input.c;
    const auto moments = [&](int64_t c) { return MomentsOf<double>(sums[c], sums[channels + c], count); };
    fill_columns(kMean, [&](int64_t c) {
      return static_cast<float>(moments(c).offset + (center ? static_cast<double>(center[c]) : 0.0));
    });
    fill_columns(kInverseDeviation, [&](int64_t c) { return inverse_deviation(moments(c).variance); });
    fill_columns(kFactor, [&](int64_t c) { return scale(c) * statistic(kInverseDeviation)[column_of(c)]; });
    fill_shift(kShift);
  }

  void forward(const Tensor& x, const Tensor& skip, const Tensor& y) override {
    normalize(x, skip, y, kMean, kFactor, kShift);
  }

  void evaluate(const Tensor& x, const Tensor& skip, const Tensor& y, const float* mean,
                const float* variance) override {
    fill_columns(kGivenMean, [&](int64_t c) { return mean[c]; });
    fill_columns(kGivenFactor, [&](int64_t c) { return scale(c) * inverse_deviation(variance[c]); });
    fill_shift(kGivenShift);
    normalize(x, skip, y, kGivenMean, kGivenFactor, kGivenShift);
  }

  void evaluate_backward(const Tensor& x, const Tensor& y, const Tensor& more, const Tensor& dy, const Tensor& dx,
                         const float* mean, const float* variance) override {
    check(dy);
    if (relu()) check(y);
    if (more.data) check(more);
    if (dx.data) check(dx);
    const int64_t n = dy.shape.n;
    fill_columns(kGivenFactor, [&](int64_t c) { return scale(c) * inverse_deviation(variance[c]); });
    if (function()) {
      check(x);
      fill_columns(kGivenMean, [&](int64_t c) { return mean[c]; });
      fill_shift(kGivenShift);
    }
    workers_.each(rows_.items(n), [&](int64_t item) {
      rows_.each_run(item, n, [&](int64_t at, int64_t rows, int64_t column) {
        kernels_.scale({.x = function() ? element(x, at) : nullptr,
                        .y = relu() ? element(y, at) : nullptr,
                        .more = more.data ? element(more, at) : nullptr,
                        .dy = element(dy, at),
                        .dx = dx.data ? element(dx, at) : nullptr,
                        .rows = rows,
                        .width = rows_.width(),
                        .mean = statistic(kGivenMean) + column,
                        .factor = statistic(kGivenFactor) + column,
                        .shift = statistic(kGivenShift) + column,
                        .activation = function()});
      });
    });
  }

  void backward_sum(const Tensor& x, const Tensor& y, const Tensor& more, const Tensor& dy, float* t1,
                    float* t2) override {
    check(x);
    check(dy);
    if (relu()) check(y);
    if (more.data) check(more);
    const int64_t n = x.shape.n;
    workers_.each(rows_.items(n), [&](int64_t item) {
      float* partial = clear_partial(item);
      rows_.each_run(item, n, [&](int64_t at, int64_t rows, int64_t column) {
        kernels_.backward_sum({.x = element(x, at),
                               .y = relu() ? element(y, at) : nullptr,
                               .more = more.data ? element(more, at) : nullptr,
                               .dy = element(dy, at),
                               .rows = rows,
                               .width = rows_.width(),
                               .mean = statistic(kMean) + column,
                               .factor = statistic(kFactor) + column,
                               .shift = statistic(kShift) + column,
                               .activation = function(),
                               .t1 = partial + column,
                               .t2 = partial + rows_.columns() + column});
      });
    });
    add_partials(n, t1, t2);
    for (int64_t c = 0; c < desc_.input.c; ++c) t2[c] *= statistic(kInverseDeviation)[column_of(c)];
  }

  void begin_backward(const float* t1, const float* t2, float count) override {
    fill_columns(kMeanT1, [&](int64_t c) { return t1[c] / count; });
    fill_columns(kMeanT2, [&](int64_t c) { return t2[c] / count; });
  }

  void backward(const Tensor& x, const Tensor& dy, const Tensor& dx) override {
    check(x);
    check(dy);
    check(dx);
    const int64_t n = x.shape.n;
    workers_.each(rows_.items(n), [&](int64_t item) {
      rows_.each_run(item, n, [&](int64_t at, int64_t rows, int64_t column) {
        kernels_.backward({.x = element(x, at),
                           .dy = element(dy, at),
                           .dx = element(dx, at),
                           .rows = rows,
                           .width = rows_.width(),
                           .mean = statistic(kMean) + column,
                           .inverse_deviation = statistic(kInverseDeviation) + column,
                           .factor = statistic(kFactor) + column,
                           .mean_t1 = statistic(kMeanT1) + column,
                           .mean_t2 = statistic(kMeanT2) + column});
        if (rows_.ragged(item, n)) clear_lanes(dx, at, rows * desc_.input.c);
      });
    });
  }

 private:
  enum Statistic {
    // of sum
    kCenter,
    // of begin_forward
    kMean,
    kInverseDeviation,
    kFactor,
    kShift,
    // of begin_backward
    kMeanT1,
    kMeanT2,
    // of evaluate
    kGivenMean,
    kGivenFactor,
    kGivenShift,
    kStatistics
  };

  void normalize(const Tensor& x, const Tensor& skip, const Tensor& y, Statistic mean, Statistic factor,
                 Statistic shift) {
    check(x);
    check(y);
    if (desc_.add) check(skip);
    const int64_t n = x.shape.n;
    workers_.each(rows_.items(n), [&](int64_t item) {
      rows_.each_run(item, n, [&](int64_t at, int64_t rows, int64_t column) {
        kernels_.forward({.x = element(x, at),
                          .skip = desc_.add ? element(skip, at) : nullptr,
                          .y = element(y, at),
                          .rows = rows,
                          .width = rows_.width(),
                          .mean = statistic(mean) + column,
                          .factor = statistic(factor) + column,
                          .shift = statistic(shift) + column,
                          .relu = relu(),
                          .activation = function()});
      });
    });
    if (!desc_.activation.keeps_zero()) clear_padded_channels(workers_, y);
  }

  bool relu() const { return desc_.activation.is_relu(); }
  const Activation* function() const { return desc_.activation.reads_input() ? &desc_.activation : nullptr; }
  void fill_shift(Statistic which) const {
    fill_columns(which, [&](int64_t c) { return shift_ ? shift_[c] : 0.0f; });
  }

  float scale(int64_t c) const { return scale_ ? scale_[c] : 1.0f; }
  float inverse_deviation(double variance) const {
    return static_cast<float>(1 / std::sqrt(variance + static_cast<double>(desc_.epsilon)));
  }

  float* statistic(Statistic which) const { return statistics_.as<float>() + which * rows_.columns(); }
  int64_t column_of(int64_t channel) const { return channel * rows_.lanes(); }
  template <class F>
  void fill_columns(Statistic which, F&& value) const {
    float* to = statistic(which);
    for (int64_t c = 0; c < desc_.input.c; ++c) std::fill_n(to + column_of(c), rows_.lanes(), value(c));
  }

  float* partial(int64_t slot) const { return partials_.as<float>() + slot * 2 * rows_.columns(); }
  float* clear_partial(int64_t item) const {
    float* const sums = partial(rows_.slot(item));
    const Interval columns = rows_.columns_of(item);
    for (const int64_t part : {int64_t{0}, rows_.columns()})
      std::fill_n(sums + part + columns.first, columns.size(), 0.0f);
    return sums;
  }
  void add_partials(int64_t n, float* first, float* second) const {
    const int64_t slots = rows_.slots(n), lanes = rows_.lanes();
    for (int64_t part = 0; part < 2; ++part)
      for (int64_t c = 0; c < desc_.input.c; ++c) {
        double total = 0;
        for (int64_t slot = 0; slot < slots; ++slot) {
          const float* from = partial(slot) + part * rows_.columns() + column_of(c);
          const int64_t filled = rows_.ragged(slot, n) ? rows_.ragged_lanes(n) : lanes;
          for (int64_t l = 0; l < filled; ++l) total += static_cast<double>(from[l]);
        }
        (part == 0 ? first : second)[c] = static_cast<float>(total);
      }
  }

  // Zeroes the lanes past n in `count` groups of lanes, starting at element `at`.
  void clear_lanes(const Tensor& t, int64_t at, int64_t count) const {
    const int64_t lanes = rows_.lanes(), filled = rows_.ragged_lanes(t.shape.n);
    for (int64_t i = 0; i < count; ++i)
      std::memset(element(t, at + i * lanes + filled), 0, size_of(type_) * static_cast<size_t>(lanes - filled));
  }

  void check(const Tensor& t) const {
    DDP_EXPECT(t.format == desc_.format && t.dtype == type_ && t.shape.image == desc_.input);
    require(t.shape.n <= max_batch_, Exit::internal, "a batch norm planned for up to {} samples was given {}",
            max_batch_, t.shape.n);
  }

  Workers workers_;
  BatchNormDesc desc_;
  DType type_;
  const NormKernels& kernels_;
  Rows rows_;
  int64_t max_batch_;  // samples
  Buffer statistics_;  // [Statistic][column]
  Buffer partials_;    // [slot][2][column]
  const float* scale_ = nullptr;
  const float* shift_ = nullptr;
};

}  // namespace

std::unique_ptr<BatchNorm> CpuOps::batch_norm(const BatchNormDesc& desc, std::span<const int64_t> batch_sizes) {
  return std::make_unique<CpuBatchNorm>(workers_, activations_, desc, batch_sizes);
}

}  // namespace ddp
