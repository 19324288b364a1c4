#include "tests/ops/reference/dense.h"
#include "tests/ops/reference/plans.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddp::reference {
namespace {

class ReferencePool2d final : public Pool2d {
 public:
  ReferencePool2d(const Device& device, const Pool2dDesc& desc)
      : device_(device), d_(desc), out_(pool2d_output(desc)) {}

  void forward(const Tensor& x, const Tensor& y) override {
    expect_dense(x);
    expect_dense(y);
    each(x.shape.n, [&](int64_t n, int64_t i, int64_t j, int64_t c) {
      if (d_.kind == Pool2dDesc::Kind::maximum) {
        *at(y, n, i, j, c) = *largest(x, n, i, j, c);
        return;
      }
      double sum = 0;
      int64_t places = 0;
      each_place(i, j, [&](int64_t h, int64_t w) {
        sum += *at(x, n, h, w, c);
        ++places;
      });
      *at(y, n, i, j, c) = static_cast<float>(sum / static_cast<double>(places));
    });
    device_.poll();
  }

  void backward(const Tensor& x, const Tensor&, const Tensor& dy, const Tensor& dx, const ReluBefore& relu) override {
    expect_dense(dx);
    std::fill_n(dx.f32(), dx.shape.elements(), 0.0f);
    each(dy.shape.n, [&](int64_t n, int64_t i, int64_t j, int64_t c) {
      if (d_.kind == Pool2dDesc::Kind::maximum) {
        dx.f32()[largest(x, n, i, j, c) - x.f32()] += *at(dy, n, i, j, c);
        return;
      }
      int64_t places = 0;
      each_place(i, j, [&](int64_t, int64_t) { ++places; });
      each_place(
          i, j, [&](int64_t h, int64_t w) { *at(dx, n, h, w, c) += *at(dy, n, i, j, c) / static_cast<float>(places); });
    });
    if (relu.applies) relu_gradients(x, dx, relu);
    device_.poll();
  }

 private:
  static void relu_gradients(const Tensor& x, const Tensor& dx, const ReluBefore& relu) {
    const int64_t channels = dx.shape.image.c;
    std::vector<double> sums(channels);
    for (int64_t i = 0; i < dx.shape.elements(); ++i) {
      if (x.f32()[i] <= 0) dx.f32()[i] = 0;
      sums[i % channels] += dx.f32()[i];
    }
    for (int64_t c = 0; relu.dbias && c < channels; ++c)
      relu.dbias[c] = static_cast<float>(sums[c] + (relu.mode == Gradient::add ? relu.dbias[c] : 0));
  }

  template <class F>
  void each_place(int64_t i, int64_t j, F&& f) const {
    if (d_.kind == Pool2dDesc::Kind::global_average) {
      for (int64_t h = 0; h < d_.input.h; ++h)
        for (int64_t w = 0; w < d_.input.w; ++w) f(h, w);
    } else if (d_.kind == Pool2dDesc::Kind::adaptive_average) {
      const auto& [in_h, in_w, channels] = d_.input;
      for (int64_t h = i * in_h / out_.h; h * out_.h < (i + 1) * in_h; ++h)
        for (int64_t w = j * in_w / out_.w; w * out_.w < (j + 1) * in_w; ++w) f(h, w);
    } else {
      each_tap(d_.input, d_.window, i, j, [&](int64_t, int64_t, int64_t h, int64_t w) { f(h, w); });
    }
  }

  const float* largest(const Tensor& x, int64_t n, int64_t i, int64_t j, int64_t c) const {
    const float* found = nullptr;
    each_place(i, j, [&](int64_t h, int64_t w) {
      const float* candidate = at(x, n, h, w, c);
      if (!found || *candidate > *found || (std::isnan(*candidate) && !std::isnan(*found))) found = candidate;
    });
    DDP_EXPECT(found);
    return found;
  }

  template <class F>
  void each(int64_t samples, F&& f) const {
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t i = 0; i < out_.h; ++i)
        for (int64_t j = 0; j < out_.w; ++j)
          for (int64_t c = 0; c < out_.c; ++c) f(n, i, j, c);
  }

  const Device& device_;
  Pool2dDesc d_;
  ImageShape out_;
};

}  // namespace

std::unique_ptr<Pool2d> make_pool2d(const Device& device, const Pool2dDesc& desc) {
  return std::make_unique<ReferencePool2d>(device, desc);
}

}  // namespace ddp::reference
