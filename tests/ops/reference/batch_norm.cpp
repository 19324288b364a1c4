#include "tests/ops/reference/activation.h"
#include "tests/ops/reference/dense.h"
#include "tests/ops/reference/plans.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddp::reference {
namespace {

class ReferenceBatchNorm final : public BatchNorm {
 public:
  ReferenceBatchNorm(const Device& device, const BatchNormDesc& desc)
      : device_(device), d_(desc), c_(desc.input.c), mean_(c_), inverse_deviation_(c_) {}

  void bind(const float* scale, const float* shift) override {
    scale_ = scale;
    shift_ = shift;
  }

  void sum(const Tensor& x, const float* center, float* sums) override {
    check(x);
    std::vector<double> s1(c_), s2(c_);
    each(x, [&](int64_t i, int64_t c) {
      const double v = x.f32()[i] - (center ? static_cast<double>(center[c]) : 0.0);
      s1[c] += v;
      s2[c] += v * v;
    });
    store_sums(s1, s2, sums, sums + c_);
  }

  // Reads the sums in forward, so that a caller who changes them too early is seen.
  void begin_forward(const float* center, const float* sums, float count) override { forward_ = {center, sums, count}; }

  void forward(const Tensor& x, const Tensor& skip, const Tensor& y) override {
    const auto [center, sums, count] = forward_;
    for (int64_t c = 0; c < c_; ++c) {
      const double m1 = static_cast<double>(sums[c]) / count, m2 = static_cast<double>(sums[c_ + c]) / count;
      mean_[c] = m1 + (center ? static_cast<double>(center[c]) : 0.0);
      inverse_deviation_[c] = 1 / std::sqrt(std::max(m2 - m1 * m1, 0.0) + d_.epsilon);
    }
    normalize(x, skip, y, mean_, inverse_deviation_);
  }

  void evaluate(const Tensor& x, const Tensor& skip, const Tensor& y, const float* mean,
                const float* variance) override {
    std::vector<double> inverse_deviation(c_);
    for (int64_t c = 0; c < c_; ++c)
      inverse_deviation[c] = 1 / std::sqrt(static_cast<double>(variance[c]) + d_.epsilon);
    normalize(x, skip, y, {mean, mean + c_}, inverse_deviation);
  }

  void evaluate_backward(const Tensor& x, const Tensor& y, const Tensor& more, const Tensor& dy, const Tensor& dx,
                         const float* mean, const float* variance) override {
    check(dy);
    each(dy, [&](int64_t i, int64_t c) {
      float& g = dy.f32()[i];
      const double scale = scale_ ? scale_[c] : 1.0;
      const double factor = scale / std::sqrt(static_cast<double>(variance[c]) + d_.epsilon);
      if (more.data) g += more.f32()[i];
      mask(g, y, i);
      if (d_.activation.reads_input()) multiply(g, (x.f32()[i] - static_cast<double>(mean[c])) * factor, c);
      if (dx.data) dx.f32()[i] = static_cast<float>(factor * g);
    });
    device_.poll();
  }

  void backward_sum(const Tensor& x, const Tensor& y, const Tensor& more, const Tensor& dy, float* t1,
                    float* t2) override {
    check(dy);
    std::vector<double> first(c_), second(c_);
    each(x, [&](int64_t i, int64_t c) {
      float& g = dy.f32()[i];
      if (more.data) g += more.f32()[i];
      mask(g, y, i);
      if (d_.activation.reads_input())
        multiply(g, (scale_ ? scale_[c] : 1.0) * (x.f32()[i] - mean_[c]) * inverse_deviation_[c], c);
      first[c] += g;
      second[c] += g * (x.f32()[i] - mean_[c]) * inverse_deviation_[c];
    });
    store_sums(first, second, t1, t2);
  }

  void begin_backward(const float* t1, const float* t2, float count) override { backward_ = {t1, t2, count}; }

  void backward(const Tensor& x, const Tensor& dy, const Tensor& dx) override {
    check(dx);
    const auto [t1, t2, count] = backward_;
    each(x, [&](int64_t i, int64_t c) {
      const double xhat = (x.f32()[i] - mean_[c]) * inverse_deviation_[c], scale = scale_ ? scale_[c] : 1.0;
      dx.f32()[i] = static_cast<float>(
          scale * inverse_deviation_[c] *
          (dy.f32()[i] - static_cast<double>(t1[c]) / count - xhat * static_cast<double>(t2[c]) / count));
    });
    device_.poll();
  }

 private:
  void check(const Tensor& t) const {
    expect_dense(t);
    DDP_EXPECT(t.shape.image == d_.input);
  }
  void mask(float& g, const Tensor& y, int64_t i) const {
    if (d_.activation.is_relu() && y.f32()[i] <= 0) g = 0;
  }
  void multiply(float& g, double scaled, int64_t c) const {
    g = static_cast<float>(g * derivative_at(d_.activation, scaled + (shift_ ? shift_[c] : 0.0)));
  }
  template <class F>
  void each(const Tensor& t, F&& f) const {
    for (int64_t i = 0; i < t.shape.elements(); ++i) f(i, i % c_);
  }
  void store_sums(const std::vector<double>& first, const std::vector<double>& second, float* to,
                  float* to_second) const {
    for (int64_t c = 0; c < c_; ++c) {
      to[c] = static_cast<float>(first[c]);
      to_second[c] = static_cast<float>(second[c]);
    }
    device_.poll();
  }
  void normalize(const Tensor& x, const Tensor& skip, const Tensor& y, const std::vector<double>& mean,
                 const std::vector<double>& inverse_deviation) const {
    check(x);
    check(y);
    each(x, [&](int64_t i, int64_t c) {
      const double xhat = (x.f32()[i] - mean[c]) * inverse_deviation[c];
      double v = (scale_ ? scale_[c] : 1.0) * xhat + (shift_ ? shift_[c] : 0.0);
      if (d_.add) v += skip.f32()[i];
      y.f32()[i] = static_cast<float>(d_.activation ? value_of(d_.activation, v) : v);
    });
    device_.poll();
  }

  const Device& device_;
  BatchNormDesc d_;
  int64_t c_;
  struct Sums {
    const float *first, *second;
    float count;
  } forward_{}, backward_{};
  std::vector<double> mean_, inverse_deviation_;
  const float* scale_ = nullptr;
  const float* shift_ = nullptr;
};

class ReferenceRunningStats final : public RunningStats {
 public:
  explicit ReferenceRunningStats(std::span<const RunningStatsSpan> layers) : layers_(layers.begin(), layers.end()) {}

  void update(float* state, const float* sums, float samples, bool replace, std::span<const float> skip) override {
    if (std::any_of(skip.begin(), skip.end(), [](float value) { return value != 0; })) return;
    for (const RunningStatsSpan& layer : layers_) {
      const double count = static_cast<double>(samples) * layer.positions;
      const double momentum = replace ? 1 : layer.momentum;
      for (int64_t c = 0; c < layer.channels; ++c) {
        float* mean = state + layer.offset + c;
        float* variance = mean + layer.channels;
        const double m1 = sums[layer.offset + c] / count, m2 = sums[layer.offset + layer.channels + c] / count;
        double v = std::max(m2 - m1 * m1, 0.0);
        if (layer.unbiased && count > 1) v *= count / (count - 1);
        *variance = static_cast<float>((1 - momentum) * *variance + momentum * v);
        *mean = static_cast<float>((1 - momentum) * *mean + momentum * (*mean + m1));
      }
    }
  }

 private:
  std::vector<RunningStatsSpan> layers_;
};

}  // namespace

std::unique_ptr<BatchNorm> make_batch_norm(const Device& device, const BatchNormDesc& desc) {
  return std::make_unique<ReferenceBatchNorm>(device, desc);
}
std::unique_ptr<RunningStats> make_running_stats(std::span<const RunningStatsSpan> layers) {
  return std::make_unique<ReferenceRunningStats>(layers);
}

}  // namespace ddp::reference
