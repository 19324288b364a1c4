#include "core/error.h"
#include "device/buffer.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/layout.h"

#include <algorithm>

namespace ddp {
namespace {

// Computes in f32 on batch-interleaved activations. An input of another format or type is first copied to that. The
// output is batch-interleaved, of type `activations`.
//
// Forward and input gradient use LaneSum, with blocks of samples as pixels. The weight gradient sums over samples, so
// its vectors run over input features: LaneSum reads x as a dense matrix, with dy as the weights.
class LaneLinear final : public Linear {
 public:
  LaneLinear(const Workers& workers, DType activations, const LinearDesc& desc, std::span<const int64_t> batch_sizes)
      : workers_(workers),
        desc_(desc),
        activations_(activations),
        in_(desc.in_features),
        out_(desc.out_features),
        lanes_(desc.input_format.kind == Format::Kind::batch_interleaved ? desc.input_format.block
                                                                         : choose_lanes(workers, batch_sizes)),
        x_staged_(activations != DType::f32 || desc.input_format.kind != Format::Kind::batch_interleaved),
        y_staged_(activations != DType::f32),
        max_batch_(batch_sizes.empty() ? 0 : *std::max_element(batch_sizes.begin(), batch_sizes.end())),
        row_(ceil_div(in_, lanes_) * lanes_),
        kernels_(workers.kernels.lanes(lanes_)) {
    Device& device = workers.device;
    const int64_t padded = ceil_div(max_batch_, lanes_) * lanes_;
    const auto floats = [&](int64_t count) { return Buffer(device, sizeof(float) * count); };
    forward_weights_ = floats(ceil_div(out_, kTile) * kTile * in_);
    if (desc.input_gradient) input_weights_ = floats(ceil_div(in_, kTile) * kTile * out_);
    if (x_staged_) x_lanes_ = floats(padded * in_);
    if (y_staged_) y_lanes_ = floats(padded * out_);
    if (y_staged_) dy_lanes_ = floats(padded * out_);
    if (!desc.weight_gradient) return;
    x_rows_ = floats(max_batch_ * row_);
    dy_rows_ = floats(ceil_div(out_, kTile) * kTile * max_batch_);
  }

  Format output_format() const override { return Format::batch_interleaved(lanes_); }

  void bind(const WeightData& weight, const WeightData& bias) override {
    bias_ = bias.f32;
    pack(weight.f32, out_, in_, in_, 1, forward_weights_.as<float>());
    if (desc_.input_gradient) pack(weight.f32, in_, out_, 1, in_, input_weights_.as<float>());
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x, y);
    const Tensor from = staged(x, x_lanes_, x_staged_), to = in_lanes(y, y_lanes_, y_staged_);
    multiply(forward_weights_, from.f32(), in_, to.f32(), out_, x.shape.n, bias_, desc_.relu);
    if (y_staged_) reorder(workers_, to, y);
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t*) override {
    check(x, dy);
    if (!dweight && !dbias && !desc_.relu) return;
    const int64_t n = x.shape.n;
    const bool add = mode == Gradient::add, rows_given = !y_staged_ && row_ == in_ && is_dense(x);
    const Tensor dy_lanes = staged(dy, dy_lanes_, y_staged_);
    const float* const y_lanes = desc_.relu ? staged(y, y_lanes_, y_staged_).f32() : nullptr;
    const float* const rows = rows_given ? x.f32() : x_rows_.as<float>();
    if (dweight && !rows_given)
      to_dense(workers_, staged(x, x_lanes_, x_staged_).f32(), n, in_, lanes_, x_rows_.as<float>(), row_);

    workers_.each(ceil_div(out_, kTile), [&](int64_t tile) {
      const int64_t o = tile * kTile, outs = std::min<int64_t>(kTile, out_ - o);
      float unused[kTile];
      kernels_.bias_gradient({.y = desc_.relu ? y_lanes + o * lanes_ : nullptr,
                              .dy = dy_lanes.f32() + o * lanes_,
                              .pixels = ceil_div(n, lanes_),
                              .pixel = out_ * lanes_,
                              .outs = static_cast<int>(outs),
                              .db = dbias ? dbias + o : unused,
                              .add = dbias && add});
      if (!dweight) return;
      float* packed = dy_rows_.as<float>() + tile * max_batch_ * kTile;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t r = 0; r < outs; ++r)
          packed[i * kTile + r] = dy_lanes.f32()[(i / lanes_ * out_ + o + r) * lanes_ + i % lanes_];

      LaneSum sum{.x = rows,
                  .x_pixel = lanes_,
                  .x_segment = 0,
                  .x_step = row_,
                  .w = packed,
                  .w_segment = 0,
                  .segments = 1,
                  .count = n,
                  .pixels = in_ / lanes_,
                  .y = dweight + o * in_,
                  .y_pixel = lanes_,
                  .y_row = in_,
                  .rows = static_cast<int>(outs),
                  .bias = nullptr,
                  .relu = false,
                  .add = add};
      kernels_.sum(sum);
      const int64_t whole = in_ / lanes_ * lanes_;
      if (whole == in_) return;
      float rest[kTile][16];
      sum.x += whole;
      sum.pixels = 1;
      sum.y = rest[0];
      sum.y_row = 16;
      sum.add = false;
      kernels_.sum(sum);
      for (int64_t r = 0; r < outs; ++r)
        for (int64_t i = whole; i < in_; ++i) {
          float& to = dweight[(o + r) * in_ + i];
          to = rest[r][i - whole] + (add ? to : 0.0f);
        }
    });
    if (y_staged_ && desc_.relu) reorder(workers_, dy_lanes, dy);
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    check(dx, dy);
    DDP_EXPECT(desc_.input_gradient);
    const Tensor from = staged(dy, dy_lanes_, y_staged_), to = in_lanes(dx, x_lanes_, x_staged_);
    multiply(input_weights_, from.f32(), out_, to.f32(), in_, dx.shape.n, nullptr, false);
    if (x_staged_) reorder(workers_, to, dx);
  }

 private:
  // Packs [rows][columns], with strides `row` and `column`, to [row tile][column][kTile].
  static void pack(const float* weight, int64_t rows, int64_t columns, int64_t row, int64_t column, float* packed) {
    for (int64_t first = 0; first < rows; first += kTile) {
      const int64_t count = std::min<int64_t>(kTile, rows - first);
      for (int64_t k = 0; k < columns; ++k, packed += kTile)
        for (int64_t r = 0; r < count; ++r) packed[r] = weight[(first + r) * row + k * column];
    }
  }

  void check(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.format == desc_.input_format && y.format == output_format());
    DDP_EXPECT(x.dtype == activations_ && y.dtype == activations_);
    DDP_EXPECT(x.shape.image.elements() == in_ && y.shape.image.elements() == out_);
    require(x.shape.n == y.shape.n && x.shape.n <= max_batch_, Exit::internal,
            "a linear layer planned for up to {} samples was given {}", max_batch_, x.shape.n);
  }

  Tensor in_lanes(const Tensor& t, const Buffer& memory, bool other) const {
    return other ? Tensor{memory.data(), t.shape, Format::batch_interleaved(lanes_)} : t;
  }
  Tensor staged(const Tensor& t, const Buffer& memory, bool other) const {
    const Tensor lanes = in_lanes(t, memory, other);
    if (other) reorder(workers_, t, lanes);
    return lanes;
  }

  void multiply(const Buffer& weights, const float* from, int64_t inputs, float* to, int64_t outputs, int64_t n,
                const float* bias, bool relu) const {
    workers_.each(ceil_div(outputs, kTile), [&](int64_t tile) {
      const int64_t o = tile * kTile;
      kernels_.sum({.x = from,
                    .x_pixel = inputs * lanes_,
                    .x_segment = 0,
                    .x_step = lanes_,
                    .w = weights.as<float>() + o * inputs,
                    .w_segment = 0,
                    .segments = 1,
                    .count = inputs,
                    .pixels = ceil_div(n, lanes_),
                    .y = to + o * lanes_,
                    .y_pixel = outputs * lanes_,
                    .y_row = lanes_,
                    .rows = static_cast<int>(std::min<int64_t>(kTile, outputs - o)),
                    .bias = bias ? bias + o : nullptr,
                    .relu = relu,
                    .add = false});
    });
  }

  Workers workers_;
  LinearDesc desc_;
  DType activations_;
  int64_t in_, out_;
  int lanes_;
  bool x_staged_, y_staged_;  // whether the tensor is copied, because it is not batch-interleaved f32
  int64_t max_batch_;         // in samples
  int64_t row_;               // in_, rounded up to whole vectors
  const LaneKernels& kernels_;
  Buffer forward_weights_;     // [output tile][i][kTile]
  Buffer input_weights_;       // [input tile][o][kTile]
  Buffer x_lanes_;             // copy of x or dx
  Buffer y_lanes_, dy_lanes_;  // copies of y and dy
  Buffer x_rows_;              // [n][row_]
  Buffer dy_rows_;             // [output tile][max_batch_][kTile]
  const float* bias_ = nullptr;
};

// A dense linear layer is a convolution with 1 x 1 windows over its positions.
class DenseLinear final : public Linear {
 public:
  DenseLinear(CpuOps& ops, const LinearDesc& d, std::span<const int64_t> batch_sizes)
      : input_{1, d.positions, d.in_features},
        output_{1, d.positions, d.out_features},
        conv_(ops.conv2d({.input = input_,
                          .input_format = {},
                          .out_channels = d.out_features,
                          .window = {},
                          .dense = true,
                          .bias = d.bias,
                          .bias_gradient = d.bias_gradient,
                          .weight_gradient = d.weight_gradient,
                          .relu = d.relu,
                          .input_gradient = d.input_gradient},
                         batch_sizes)) {}

  Format output_format() const override { return {}; }
  void bind(const WeightData& weight, const WeightData& bias) override { conv_->bind(weight, bias); }
  void forward(const Tensor& x, const Tensor& y) override { conv_->forward(as(input_, x), as(output_, y)); }
  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t* bf16) override {
    conv_->backward_weight(as(input_, x), as(output_, y), as(output_, dy), dweight, dbias, mode, bf16);
  }
  void backward_input(const Tensor& dy, const Tensor& dx) override {
    conv_->backward_input(as(output_, dy), as(input_, dx));
  }

 private:
  static Tensor as(const ImageShape& image, Tensor t) {
    DDP_EXPECT(is_dense(t) && (!t.data || t.shape.image.elements() == image.elements()));
    t.shape.image = image;
    t.format = {};
    return t;
  }

  ImageShape input_, output_;
  std::unique_ptr<Conv2d> conv_;
};

}  // namespace

std::unique_ptr<Linear> CpuOps::linear(const LinearDesc& desc, std::span<const int64_t> batch_sizes) {
  if (desc.dense || desc.positions > 1) return std::make_unique<DenseLinear>(*this, desc, batch_sizes);
  return std::make_unique<LaneLinear>(workers_, activations_, desc, batch_sizes);
}

}  // namespace ddp
