#include "tests/reference/ops.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddp {
namespace {

float* at(const Tensor& t, int64_t n, int64_t h, int64_t w, int64_t c) {
  const ImageShape& s = t.shape.image;
  return t.f32() + ((n * s.h + h) * s.w + w) * s.c + c;
}

void expect_dense(const Tensor& t) { DDP_EXPECT(t.format == Format{}); }

void store(float* to, double value, Gradient mode) {
  *to = static_cast<float>(value + (mode == Gradient::add ? *to : 0.0f));
}

void mask(const Tensor& y, const Tensor& dy) {
  for (int64_t i = 0; i < y.shape.elements(); ++i)
    if (!(y.f32()[i] > 0)) dy.f32()[i] = 0;
}

class ReferenceConv2d final : public Conv2d {
 public:
  ReferenceConv2d(const Device& device, const Conv2dDesc& desc)
      : device_(device), d_(desc), out_(conv2d_output(desc)) {}

  Format output_format() const override { return {}; }
  void bind(const float* weight, const float* bias) override {
    weight_ = weight;
    bias_ = bias;
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x, y);
    for (int64_t n = 0; n < x.shape.n; ++n)
      for (int64_t i = 0; i < out_.h; ++i)
        for (int64_t j = 0; j < out_.w; ++j)
          for (int64_t o = 0; o < out_.c; ++o) {
            double sum = bias_[o];
            each_tap(i, j, [&](int64_t p, int64_t q, int64_t h, int64_t w) {
              for (int64_t c = 0; c < d_.input.c; ++c)
                sum += static_cast<double>(weight_[index(o, p, q, c)]) * *at(x, n, h, w, c);
            });
            *at(y, n, i, j, o) = static_cast<float>(d_.relu ? std::max(sum, 0.0) : sum);
          }
    device_.poll();
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias,
                       Gradient mode) override {
    check(x, dy);
    if (d_.relu) mask(y, dy);
    std::vector<double> dw(out_.c * d_.window.kernel * d_.window.kernel * d_.input.c), db(out_.c);
    for (int64_t n = 0; n < x.shape.n; ++n)
      for (int64_t i = 0; i < out_.h; ++i)
        for (int64_t j = 0; j < out_.w; ++j)
          for (int64_t o = 0; o < out_.c; ++o) {
            const double g = *at(dy, n, i, j, o);
            db[o] += g;
            each_tap(i, j, [&](int64_t p, int64_t q, int64_t h, int64_t w) {
              for (int64_t c = 0; c < d_.input.c; ++c) dw[index(o, p, q, c)] += g * *at(x, n, h, w, c);
            });
          }
    for (size_t k = 0; k < dw.size(); ++k) store(dweight + k, dw[k], mode);
    for (size_t k = 0; k < db.size(); ++k) store(dbias + k, db[k], mode);
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
            each_tap(i, j, [&](int64_t p, int64_t q, int64_t h, int64_t w) {
              for (int64_t c = 0; c < d_.input.c; ++c)
                sums[(h * d_.input.w + w) * d_.input.c + c] += g * weight_[index(o, p, q, c)];
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
    return ((o * d_.window.kernel + p) * d_.window.kernel + q) * d_.input.c + c;
  }
  template <class F>
  void each_tap(int64_t i, int64_t j, F&& tap) const {
    const auto& [kernel, stride, padding] = d_.window;
    for (int64_t p = 0; p < kernel; ++p)
      for (int64_t q = 0; q < kernel; ++q) {
        const int64_t h = i * stride + p - padding, w = j * stride + q - padding;
        if (h >= 0 && h < d_.input.h && w >= 0 && w < d_.input.w) tap(p, q, h, w);
      }
  }

  const Device& device_;
  Conv2dDesc d_;
  ImageShape out_;
  const float* weight_ = nullptr;
  const float* bias_ = nullptr;
};

// A linear layer is a convolution of a 1 x 1 image with `in` channels.
class ReferenceLinear final : public Linear {
 public:
  ReferenceLinear(const Device& device, const LinearDesc& d)
      : conv_(device, {.input = {1, 1, d.in_features},
                       .input_format = {},
                       .out_channels = d.out_features,
                       .window = {},
                       .relu = d.relu,
                       .input_gradient = d.input_gradient}) {}

  Format output_format() const override { return {}; }
  void bind(const float* weight, const float* bias) override { conv_.bind(weight, bias); }
  void forward(const Tensor& x, const Tensor& y) override { conv_.forward(flat(x), y); }
  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias,
                       Gradient mode) override {
    conv_.backward_weight(flat(x), y, dy, dweight, dbias, mode);
  }
  void backward_input(const Tensor& dy, const Tensor& dx) override { conv_.backward_input(dy, flat(dx)); }

 private:
  static Tensor flat(Tensor t) {
    t.shape.image = {1, 1, t.shape.image.elements()};
    return t;
  }
  ReferenceConv2d conv_;
};

class ReferenceAvgPool2d final : public AvgPool2d {
 public:
  ReferenceAvgPool2d(const Device& device, const AvgPool2dDesc& desc)
      : device_(device), d_(desc), out_(avg_pool2d_output(desc)) {}

  void forward(const Tensor& x, const Tensor& y) override {
    expect_dense(x);
    each(x.shape.n, [&](int64_t n, int64_t i, int64_t j, int64_t c) {
      double sum = 0;
      for (int64_t p = 0; p < d_.kernel; ++p)
        for (int64_t q = 0; q < d_.kernel; ++q) sum += *at(x, n, i * d_.stride + p, j * d_.stride + q, c);
      *at(y, n, i, j, c) = static_cast<float>(sum / static_cast<double>(d_.kernel * d_.kernel));
    });
    device_.poll();
  }

  void backward(const Tensor& dy, const Tensor& dx) override {
    expect_dense(dx);
    std::fill_n(dx.f32(), dx.shape.elements(), 0.0f);
    const float share = 1.0f / static_cast<float>(d_.kernel * d_.kernel);
    each(dy.shape.n, [&](int64_t n, int64_t i, int64_t j, int64_t c) {
      for (int64_t p = 0; p < d_.kernel; ++p)
        for (int64_t q = 0; q < d_.kernel; ++q)
          *at(dx, n, i * d_.stride + p, j * d_.stride + q, c) += *at(dy, n, i, j, c) * share;
    });
    device_.poll();
  }

 private:
  template <class F>
  void each(int64_t samples, F&& f) const {
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t i = 0; i < out_.h; ++i)
        for (int64_t j = 0; j < out_.w; ++j)
          for (int64_t c = 0; c < out_.c; ++c) f(n, i, j, c);
  }

  const Device& device_;
  AvgPool2dDesc d_;
  ImageShape out_;
};

class ReferenceOps final : public Ops {
 public:
  explicit ReferenceOps(Device& device) : device_(device) {}

  std::unique_ptr<Conv2d> conv2d(const Conv2dDesc& desc, std::span<const int64_t>) override {
    return std::make_unique<ReferenceConv2d>(device_, desc);
  }
  std::unique_ptr<Linear> linear(const LinearDesc& desc, std::span<const int64_t>) override {
    return std::make_unique<ReferenceLinear>(device_, desc);
  }
  std::unique_ptr<AvgPool2d> avg_pool2d(const AvgPool2dDesc& desc, std::span<const int64_t>) override {
    return std::make_unique<ReferenceAvgPool2d>(device_, desc);
  }
  DType activation_dtype() const override { return DType::f32; }
  Format input_format(const Conv2dDesc*, std::span<const int64_t>) const override { return {}; }

  void reorder(const Tensor& from, const Tensor& to) override {
    expect_dense(from);
    expect_dense(to);
    std::copy_n(from.f32(), from.shape.elements(), to.f32());
  }
  void normalize(const Samples& samples, const ImageShape& image, const Tensor& x) override {
    const auto& [h, w, c] = x.shape.image;
    for (int64_t n = 0; n < x.shape.n; ++n)
      for (int64_t i = 0; i < h; ++i)
        for (int64_t k = 0; k < w * c; ++k)
          x.f32()[(n * h + i) * w * c + k] =
              static_cast<float>(samples.pixels[(samples.id(n) * image.h + i) * image.w * image.c + k] / 255.0);
  }
  void relu(const Tensor& x, const Tensor& y) override {
    for (int64_t i = 0; i < x.shape.elements(); ++i) y.f32()[i] = std::max(x.f32()[i], 0.0f);
  }
  void relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override {
    for (int64_t i = 0; i < y.shape.elements(); ++i) dx.f32()[i] = y.f32()[i] > 0 ? dy.f32()[i] : 0.0f;
  }

  void softmax_cross_entropy(const Tensor& logits, const Samples& samples, float* stats) override {
    softmax(logits, samples, 0, nullptr, stats);
  }
  void softmax_cross_entropy_backward(const Tensor& logits, const Samples& samples, float scale, const Tensor& dlogits,
                                      float* stats) override {
    softmax(logits, samples, scale, dlogits.f32(), stats);
  }

  void flag_nonfinite(const float* values, int64_t count, float mark, float* flag) override {
    if (*flag == 0 && std::any_of(values, values + count, [](float v) { return !std::isfinite(v); })) *flag = mark;
  }
  void sgd(float* w, const float* g, int64_t count, const float* lr, std::span<const float> skip) override {
    if (std::any_of(skip.begin(), skip.end(), [](float value) { return value != 0; })) return;
    for (int64_t i = 0; i < count; ++i) w[i] = static_cast<float>(w[i] - static_cast<double>(*lr) * g[i]);
  }

 private:
  void softmax(const Tensor& logits, const Samples& samples, float scale, float* dlogits, float* stats) {
    expect_dense(logits);
    const int64_t classes = logits.shape.image.c;
    double loss = 0;
    int64_t correct = 0;
    for (int64_t n = 0; n < logits.shape.n; ++n) {
      const float* z = logits.f32() + n * classes;
      const float* largest = std::max_element(z, z + classes);
      const double max = *largest, label = z[samples.labels[samples.id(n)]];
      double sum = 0;
      for (int64_t k = 0; k < classes; ++k) sum += std::exp(z[k] - max);
      loss += std::log(sum) - (label - max);
      correct += largest - z == samples.labels[samples.id(n)];
      if (!dlogits) continue;
      for (int64_t k = 0; k < classes; ++k)
        dlogits[n * classes + k] =
            static_cast<float>((std::exp(z[k] - max) / sum - (k == samples.labels[samples.id(n)])) * scale);
    }
    stats[0] = static_cast<float>(loss);
    stats[1] = static_cast<float>(correct);
    device_.poll();
  }

  Device& device_;
};

}  // namespace

std::unique_ptr<Ops> make_reference_ops(Device& device) { return std::make_unique<ReferenceOps>(device); }

}  // namespace ddp
