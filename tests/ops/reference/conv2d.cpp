#include "tests/ops/reference/dense.h"
#include "tests/ops/reference/plans.h"

#include <algorithm>
#include <vector>

namespace ddp::reference {
namespace {

void mask(const Tensor& y, const Tensor& dy) {
  for (int64_t i = 0; i < y.shape.elements(); ++i)
    if (y.f32()[i] <= 0) dy.f32()[i] = 0;
}

class ReferenceConv2d final : public Conv2d {
 public:
  ReferenceConv2d(const Device& device, const Conv2dDesc& desc)
      : device_(device), d_(desc), out_(conv2d_output(desc)) {}

  Format output_format() const override { return {}; }
  void bind(const WeightData& weight, const WeightData& bias) override {
    weight_ = weight.f32;
    bias_ = bias.f32;
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x, y);
    for (int64_t n = 0; n < x.shape.n; ++n)
      for (int64_t i = 0; i < out_.h; ++i)
        for (int64_t j = 0; j < out_.w; ++j)
          for (int64_t o = 0; o < out_.c; ++o) {
            double sum = d_.bias ? bias_[o] : 0.0;
            each_tap(d_.input, d_.window, i, j, [&](int64_t p, int64_t q, int64_t h, int64_t w) {
              for (int64_t c = 0; c < group_; ++c)
                sum += static_cast<double>(weight_[index(o, p, q, c)]) * *at(x, n, h, w, first_channel(o) + c);
            });
            *at(y, n, i, j, o) = static_cast<float>(d_.relu ? std::max(sum, 0.0) : sum);
          }
    device_.poll();
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t*) override {
    check(x, dy);
    if (d_.relu) mask(y, dy);
    std::vector<double> dw(out_.c * d_.window.kernel * d_.window.kernel * group_), db(out_.c);
    for (int64_t n = 0; n < x.shape.n; ++n)
      for (int64_t i = 0; i < out_.h; ++i)
        for (int64_t j = 0; j < out_.w; ++j)
          for (int64_t o = 0; o < out_.c; ++o) {
            const double g = *at(dy, n, i, j, o);
            db[o] += g;
            each_tap(d_.input, d_.window, i, j, [&](int64_t p, int64_t q, int64_t h, int64_t w) {
              for (int64_t c = 0; c < group_; ++c) dw[index(o, p, q, c)] += g * *at(x, n, h, w, first_channel(o) + c);
            });
          }
    for (size_t k = 0; d_.weight_gradient && k < dw.size(); ++k) store(dweight + k, dw[k], mode);
    for (size_t k = 0; sums_bias(d_) && k < db.size(); ++k) store(dbias + k, db[k], mode);
    device_.poll();
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    check(dx, dy);
    DDP_EXPECT(d_.input_gradient);
    std::vector<double> sums(d_.input.elements());
    for (int64_t n = 0; n < dx.shape.n; ++n) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t i = 0; i < out_.h; ++i)
        for (int64_t j = 0; j < out_.w; ++j)
          for (int64_t o = 0; o < out_.c; ++o) {
            const double g = *at(dy, n, i, j, o);
            each_tap(d_.input, d_.window, i, j, [&](int64_t p, int64_t q, int64_t h, int64_t w) {
              for (int64_t c = 0; c < group_; ++c)
                sums[(h * d_.input.w + w) * d_.input.c + first_channel(o) + c] += g * weight_[index(o, p, q, c)];
            });
          }
      for (size_t k = 0; k < sums.size(); ++k) at(dx, n, 0, 0, 0)[k] = static_cast<float>(sums[k]);
    }
    device_.poll();
  }

 private:
  void check(const Tensor& x, const Tensor& y) const {
    expect_dense(x);
    expect_dense(y);
    DDP_EXPECT(x.shape.image.elements() == d_.input.elements() && y.shape.image.elements() == out_.elements());
    DDP_EXPECT(x.shape.n == y.shape.n);
  }
  int64_t index(int64_t o, int64_t p, int64_t q, int64_t c) const {
    return ((o * d_.window.kernel + p) * d_.window.kernel + q) * group_ + c;
  }
  int64_t first_channel(int64_t o) const { return o / (out_.c / d_.groups) * group_; }

  const Device& device_;
  Conv2dDesc d_;
  ImageShape out_;
  int64_t group_ = d_.input.c / d_.groups;  // input channels of an output channel
  const float* weight_ = nullptr;
  const float* bias_ = nullptr;
};

// A linear layer as a convolution of an image of positions with `in` channels.
class ReferenceLinear final : public Linear {
 public:
  ReferenceLinear(const Device& device, const LinearDesc& d)
      : positions_(d.positions),
        conv_(device, {.input = {1, d.positions, d.in_features},
                       .input_format = {},
                       .out_channels = d.out_features,
                       .window = {},
                       .bias = d.bias,
                       .bias_gradient = d.bias_gradient,
                       .weight_gradient = d.weight_gradient,
                       .relu = d.relu,
                       .input_gradient = d.input_gradient}) {}

  Format output_format() const override { return {}; }
  void bind(const WeightData& weight, const WeightData& bias) override { conv_.bind(weight, bias); }
  void forward(const Tensor& x, const Tensor& y) override { conv_.forward(flat(x), flat(y)); }
  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t*) override {
    conv_.backward_weight(flat(x), flat(y), flat(dy), dweight, dbias, mode, nullptr);
  }
  void backward_input(const Tensor& dy, const Tensor& dx) override { conv_.backward_input(flat(dy), flat(dx)); }

 private:
  Tensor flat(Tensor t) const {
    t.shape.image = {1, positions_, t.shape.image.elements() / positions_};
    return t;
  }
  int64_t positions_;
  ReferenceConv2d conv_;
};

}  // namespace

std::unique_ptr<Conv2d> make_conv2d(const Device& device, const Conv2dDesc& desc) {
  return std::make_unique<ReferenceConv2d>(device, desc);
}
std::unique_ptr<Linear> make_linear(const Device& device, const LinearDesc& desc) {
  return std::make_unique<ReferenceLinear>(device, desc);
}

}  // namespace ddp::reference
