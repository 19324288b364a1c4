#include "ops/cpu/pool2d.h"

#include "core/error.h"
#include "ops/cpu/layout.h"

#include <algorithm>

namespace ddp {
namespace {

// Every format is [planes][h][w][inner] with a contiguous inner run: channels, channels x lanes, or a block of
// channels.
class CpuAvgPool2d final : public AvgPool2d {
 public:
  CpuAvgPool2d(const Workers& workers, const AvgPool2dDesc& desc)
      : workers_(workers), desc_(desc), out_(avg_pool2d_output(desc)) {
    const int64_t block = desc.format.block;
    switch (desc.format.kind) {
      case Format::Kind::dense: inner_ = desc.input.c; break;
      case Format::Kind::lanes: inner_ = desc.input.c * block; break;
      case Format::Kind::channels: inner_ = block; break;
    }
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x, y);
    workers_.each(planes(y) * out_.h, [&](int64_t item) {
      const int64_t plane = item / out_.h, i = item % out_.h;
      for (int64_t j = 0; j < out_.w; ++j) {
        float* to = y.f32() + (item * out_.w + j) * inner_;
        for (int64_t p = 0; p < desc_.kernel; ++p)
          for (int64_t q = 0; q < desc_.kernel; ++q)
            accumulate(x.f32() + at(plane, i, j, p, q), to, p + q == 0, p + 1 == desc_.kernel && q + 1 == desc_.kernel);
      }
    });
  }

  void backward(const Tensor& dy, const Tensor& dx) override {
    check(dx, dy);
    if (desc_.kernel > desc_.stride) return backward_overlapping(dy, dx);
    const int64_t row = desc_.input.w * inner_;
    workers_.each(planes(dy) * desc_.input.h, [&](int64_t item) {
      const int64_t plane = item / desc_.input.h, h = item % desc_.input.h, i = h / desc_.stride;
      float* to = dx.f32() + item * row;
      if (i >= out_.h || h % desc_.stride >= desc_.kernel) {
        std::fill_n(to, row, 0.0f);
        return;
      }
      for (int64_t w = 0; w < desc_.input.w; ++w) {
        const int64_t j = w / desc_.stride;
        if (j >= out_.w || w % desc_.stride >= desc_.kernel)
          std::fill_n(to + w * inner_, inner_, 0.0f);
        else
          spread(dy.f32() + ((plane * out_.h + i) * out_.w + j) * inner_, to + w * inner_);
      }
    });
  }

 private:
  void backward_overlapping(const Tensor& dy, const Tensor& dx) const {
    const int64_t plane_size = desc_.input.h * desc_.input.w * inner_;
    const float scale = this->scale();
    workers_.each(planes(dy), [&](int64_t plane) {
      std::fill_n(dx.f32() + plane * plane_size, plane_size, 0.0f);
      for (int64_t i = 0; i < out_.h; ++i)
        for (int64_t j = 0; j < out_.w; ++j)
          for (int64_t p = 0; p < desc_.kernel; ++p)
            for (int64_t q = 0; q < desc_.kernel; ++q) {
              const float* from = dy.f32() + ((plane * out_.h + i) * out_.w + j) * inner_;
              float* to = dx.f32() + at(plane, i, j, p, q);
              for (int64_t k = 0; k < inner_; ++k) to[k] += from[k] * scale;
            }
    });
  }

  void accumulate(const float* from, float* to, bool first, bool last) const {
    const float scale = last ? this->scale() : 1.0f;
    if (first) {
#pragma omp simd
      for (int64_t k = 0; k < inner_; ++k) to[k] = from[k] * scale;
    } else {
#pragma omp simd
      for (int64_t k = 0; k < inner_; ++k) to[k] = (to[k] + from[k]) * scale;
    }
  }
  void spread(const float* from, float* to) const {
    const float scale = this->scale();
#pragma omp simd
    for (int64_t k = 0; k < inner_; ++k) to[k] = from[k] * scale;
  }

  float scale() const { return 1.0f / static_cast<float>(desc_.kernel * desc_.kernel); }
  int64_t planes(const Tensor& t) const { return t.stored() / (t.shape.image.h * t.shape.image.w * inner_); }
  int64_t at(int64_t plane, int64_t i, int64_t j, int64_t p, int64_t q) const {
    return ((plane * desc_.input.h + i * desc_.stride + p) * desc_.input.w + j * desc_.stride + q) * inner_;
  }
  void check(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.format == desc_.format && y.format == desc_.format);
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == out_ && x.shape.n == y.shape.n);
  }

  Workers workers_;
  AvgPool2dDesc desc_;
  ImageShape out_;
  int64_t inner_ = 1;
};

}  // namespace

std::unique_ptr<AvgPool2d> make_avg_pool2d(const Workers& workers, const AvgPool2dDesc& desc) {
  return std::make_unique<CpuAvgPool2d>(workers, desc);
}

}  // namespace ddp
