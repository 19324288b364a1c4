#include "tests/ops/reference/dense.h"
#include "tests/ops/reference/plans.h"

#include <cmath>
#include <vector>

namespace ddp::reference {
namespace {

class ReferenceLayerNorm final : public LayerNorm {
 public:
  ReferenceLayerNorm(const Device& device, const LayerNormDesc& desc) : device_(device), d_(desc), c_(desc.input.c) {}

  void bind(const float* scale, const float* shift) override {
    scale_ = scale;
    shift_ = shift;
  }

  void forward(const Tensor& x, const Tensor& y) override {
    expect_dense(x);
    expect_dense(y);
    each_sum(x, [&](const std::vector<int64_t>& elements, double mean, double inverse) {
      for (const int64_t i : elements)
        y.f32()[i] = static_cast<float>(scale_[i % c_] * (x.f32()[i] - mean) * inverse + shift_[i % c_]);
    });
    device_.poll();
  }

  void backward(const Tensor& x, const Tensor& dy, const Tensor& dx, float* dscale, float* dshift,
                Gradient mode) override {
    expect_dense(x);
    expect_dense(dy);
    std::vector<double> of_scale(c_), of_shift(c_);
    each_sum(x, [&](const std::vector<int64_t>& elements, double mean, double inverse) {
      const auto xhat = [&](int64_t i) { return (x.f32()[i] - mean) * inverse; };
      const auto g = [&](int64_t i) { return static_cast<double>(dy.f32()[i]) * scale_[i % c_]; };
      double sum = 0, product = 0;
      for (const int64_t i : elements) {
        of_scale[i % c_] += dy.f32()[i] * xhat(i);
        of_shift[i % c_] += dy.f32()[i];
        sum += g(i);
        product += g(i) * xhat(i);
      }
      const auto count = static_cast<double>(elements.size());
      for (const int64_t i : elements)
        if (dx.data) dx.f32()[i] = static_cast<float>((g(i) - sum / count - xhat(i) * product / count) * inverse);
    });
    for (int64_t c = 0; dscale && c < c_; ++c) store(dscale + c, of_scale[c], mode);
    for (int64_t c = 0; dshift && c < c_; ++c) store(dshift + c, of_shift[c], mode);
    device_.poll();
  }

 private:
  // Calls f(indices, mean, 1 / sqrt(var + epsilon)) for the elements of each sum.
  template <class F>
  void each_sum(const Tensor& x, F&& f) const {
    const int64_t positions = d_.input.h * d_.input.w, groups = d_.groups ? d_.groups : 1, width = c_ / groups;
    const int64_t rows = d_.groups ? positions : 1;  // of a sum
    for (int64_t first = 0; first < x.shape.n * positions; first += rows)
      for (int64_t g = 0; g < groups; ++g) {
        std::vector<int64_t> elements;
        for (int64_t r = first; r < first + rows; ++r)
          for (int64_t c = g * width; c < (g + 1) * width; ++c) elements.push_back(r * c_ + c);
        const auto count = static_cast<double>(elements.size());
        double mean = 0, variance = 0;
        for (const int64_t i : elements) mean += x.f32()[i] / count;
        for (const int64_t i : elements) variance += (x.f32()[i] - mean) * (x.f32()[i] - mean) / count;
        f(elements, mean, 1 / std::sqrt(variance + static_cast<double>(d_.epsilon)));
      }
  }

  const Device& device_;
  LayerNormDesc d_;
  int64_t c_;
  const float *scale_ = nullptr, *shift_ = nullptr;
};

}  // namespace

std::unique_ptr<LayerNorm> make_layer_norm(const Device& device, const LayerNormDesc& desc) {
  return std::make_unique<ReferenceLayerNorm>(device, desc);
}

}  // namespace ddp::reference
