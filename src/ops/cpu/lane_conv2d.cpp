#include "core/error.h"
#include "device/buffer.h"
#include "ops/cpu/conv2d.h"
#include "ops/cpu/layout.h"

#include <algorithm>

namespace ddp {
namespace {

constexpr int64_t kPieceFloats = 64 * 1024;  // floats of the output; they fit in the L2 cache

// The outputs j in [0, outputs) whose input j*stride + offset is in [0, inputs).
Interval valid_outputs(int64_t outputs, int64_t inputs, int64_t stride, int64_t offset) {
  const int64_t first = offset < 0 ? ceil_div(-offset, stride) : 0;
  const int64_t end = offset >= inputs ? 0 : (inputs - 1 - offset) / stride + 1;
  return {std::min(first, outputs), std::min(end, outputs)};
}

// Convolution of batch-interleaved activations x[block][h][w][c][lane].
//
// The kernel columns and channels under one output pixel are contiguous, so the forward sum of a pixel has one segment
// per kernel row. The input gradient uses the same kernel, once per kernel column q: it sums over kernel rows and
// output channels of dy pixel j, and adds the sum to dx pixel j*stride + q - left. It multiplies no zeros, unlike a
// convolution of a padded dy.
class LaneConv2d final : public Conv2d {
 public:
  LaneConv2d(const Workers& workers, const Conv2dDesc& desc)
      : workers_(workers),
        desc_(desc),
        out_(conv2d_output(desc)),
        lanes_(desc.input_format.block),
        kernels_(workers.kernels.lanes(lanes_)),
        piece_(std::clamp<int64_t>(kPieceFloats / std::max<int64_t>(1, out_.w * out_.c * lanes_), 1, out_.h)),
        forward_weights_(workers.device, sizeof(float) * ceil_div(out_.c, kTile) * kTile * taps() * desc.input.c) {
    if (desc.weight_gradient)
      weight_sums_ = Buffer(workers.device, sizeof(float) * out_.c * taps() * desc.input.c * lanes_);
    if (desc.input_gradient)
      input_weights_ = Buffer(workers.device, sizeof(float) * ceil_div(desc.input.c, kTile) * kTile * taps() * out_.c);
  }

  Format output_format() const override { return desc_.input_format; }

  void bind(const WeightData& weight, const WeightData& bias) override {
    const int64_t k = desc_.window.kernel, in = desc_.input.c, run = taps() * in;
    bias_ = bias.f32;
    float* packed = forward_weights_.as<float>();
    for (int64_t o = 0; o < out_.c; o += kTile)
      for (int64_t i = 0; i < run; ++i, packed += kTile)
        for (int64_t r = 0; r < std::min<int64_t>(kTile, out_.c - o); ++r) packed[r] = weight.f32[(o + r) * run + i];
    if (!desc_.input_gradient) return;
    packed = input_weights_.as<float>();
    for (int64_t c = 0; c < in; c += kTile)
      for (int64_t q = 0; q < k; ++q)
        for (int64_t p = 0; p < k; ++p)
          for (int64_t o = 0; o < out_.c; ++o, packed += kTile)
            for (int64_t r = 0; r < std::min<int64_t>(kTile, in - c); ++r)
              packed[r] = weight.f32[o * run + (p * k + q) * in + c + r];
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x, y);
    workers_.each(blocks(x) * out_.h, [&](int64_t item) {
      const int64_t block = item / out_.h, row = item % out_.h;
      forward_row(x.f32() + block * desc_.input.elements() * lanes_, row,
                  y.f32() + (block * out_.h + row) * out_.w * out_.c * lanes_);
    });
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t*) override {
    check(x, dy);
    const bool add = mode == Gradient::add;
    const int64_t tiles = ceil_div(out_.c, kTile), weights = out_.c * taps() * desc_.input.c;
    if (dweight) std::fill_n(weight_sums_.as<float>(), weights * lanes_, 0.0f);
    const auto tile_of_piece = [&](int64_t block, int64_t row, int64_t tile) {
      const int64_t o = tile * kTile, end = std::min(row + piece_, out_.h);
      const int64_t image = block * out_.elements() * lanes_, at = image + row * out_.w * out_.c * lanes_;
      const int outs = static_cast<int>(std::min<int64_t>(kTile, out_.c - o));
      float unused[kTile];
      if (sums_bias(desc_) || desc_.relu)
        kernels_.bias_gradient({.y = desc_.relu ? y.f32() + at + o * lanes_ : nullptr,
                                .dy = dy.f32() + at + o * lanes_,
                                .pixels = (end - row) * out_.w,
                                .pixel = out_.c * lanes_,
                                .outs = outs,
                                .db = sums_bias(desc_) ? dbias + o : unused,
                                .add = sums_bias(desc_) && (add || block > 0 || row > 0)});
      if (!dweight) return;
      weight_tile(x.f32() + block * desc_.input.elements() * lanes_, dy.f32() + image + o * lanes_, outs,
                  weight_sums_.as<float>() + o * taps() * desc_.input.c * lanes_, {row, end});
    };
    const auto each_piece = [&](const auto& visit) {
      for (int64_t block = 0; block < blocks(x); ++block)
        for (int64_t row = 0; row < out_.h; row += piece_) visit(block, row);
    };
    // The images are summed in pieces, which keeps rounding errors small. A single thread does all tiles of a piece
    // while the piece is in the cache. Several threads share the tiles, and synchronize only once.
    if (workers_.threads == 1)
      each_piece([&](int64_t block, int64_t row) {
        workers_.each(tiles, [&](int64_t tile) { tile_of_piece(block, row, tile); });
      });
    else
      workers_.each(tiles, [&](int64_t tile) {
        each_piece([&](int64_t block, int64_t row) { tile_of_piece(block, row, tile); });
      });
    if (dweight) kernels_.sum_lanes(weight_sums_.as<float>(), weights, dweight, add);
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    check(dx, dy);
    DDP_EXPECT(desc_.input_gradient);
    workers_.each(blocks(dx) * desc_.input.h, [&](int64_t item) {
      const int64_t block = item / desc_.input.h, row = item % desc_.input.h;
      input_row(dy.f32() + block * out_.elements() * lanes_, row,
                dx.f32() + (block * desc_.input.h + row) * desc_.input.w * desc_.input.c * lanes_);
    });
  }

 private:
  int64_t taps() const { return desc_.window.kernel * desc_.window.kernel; }
  int64_t blocks(const Tensor& t) const { return ceil_div(t.shape.n, lanes_); }
  void check(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.format == desc_.input_format && y.format == desc_.input_format);
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == out_ && x.shape.n == y.shape.n);
  }

  void forward_row(const float* x, int64_t row, float* y) const {
    const auto& [kernel, stride, padding, dilation] = desc_.window;
    const auto& [height, width, in] = desc_.input;
    const int64_t top = row * stride - padding.top;
    const Interval p{std::clamp<int64_t>(-top, 0, kernel), std::clamp<int64_t>(height - top, 0, kernel)};
    const int64_t whole_first = std::min(ceil_div(padding.left, stride), out_.w);
    const int64_t whole_end =
        width + padding.left < kernel
            ? whole_first
            : std::clamp<int64_t>((width + padding.left - kernel) / stride + 1, whole_first, out_.w);
    const int64_t segment = kernel * in * kTile;

    const auto run = [&](int64_t tile, int64_t first, int64_t end) {
      const int64_t left = first * stride - padding.left;
      const Interval q = end - first == 1 ? Interval{std::clamp<int64_t>(-left, 0, kernel),
                                                     std::clamp<int64_t>(width - left, 0, kernel)}
                                          : Interval{0, kernel};
      const bool empty = p.size() == 0 || q.size() == 0;
      const int64_t o = tile * kTile;
      kernels_.sum({.x = empty ? x : x + ((top + p.first) * width + left + q.first) * in * lanes_,
                    .x_pixel = stride * in * lanes_,
                    .x_segment = width * in * lanes_,
                    .x_step = lanes_,
                    .w = forward_weights_.as<float>() + (tile * kernel + p.first) * segment + q.first * in * kTile,
                    .w_segment = segment,
                    .segments = empty ? 0 : p.size(),
                    .count = q.size() * in,
                    .pixels = end - first,
                    .y = y + (first * out_.c + o) * lanes_,
                    .y_pixel = out_.c * lanes_,
                    .y_row = lanes_,
                    .rows = static_cast<int>(std::min<int64_t>(kTile, out_.c - o)),
                    .bias = desc_.bias ? bias_ + o : nullptr,
                    .relu = desc_.relu,
                    .add = false});
    };
    for (int64_t tile = 0; tile < ceil_div(out_.c, kTile); ++tile) {
      for (int64_t j = 0; j < whole_first; ++j) run(tile, j, j + 1);
      if (whole_first < whole_end) run(tile, whole_first, whole_end);
      for (int64_t j = whole_end; j < out_.w; ++j) run(tile, j, j + 1);
    }
  }

  // Adds the output rows `piece` of one block. Without padding at the left and right, all taps of a kernel row use the
  // same output columns and run together. With padding, each kernel column has its own range of output columns.
  void weight_tile(const float* x, const float* dy, int outs, float* sums, Interval piece) const {
    const auto& [kernel, stride, padding, dilation] = desc_.window;
    const auto& [height, width, in] = desc_.input;
    const bool whole = padding.left == 0 && padding.right == 0;
    const int64_t run = whole ? kernel * in : in, groups = ceil_div(run, kernels_.max_taps);
    for (int64_t p = 0; p < kernel; ++p) {
      Interval rows = valid_outputs(out_.h, height, stride, p - padding.top);
      rows = {std::max(rows.first, piece.first), std::min(rows.end, piece.end)};
      for (int64_t q = 0; q < (whole ? 1 : kernel); ++q) {
        const Interval columns = whole ? Interval{0, out_.w} : valid_outputs(out_.w, width, stride, q - padding.left);
        if (rows.size() == 0 || columns.size() == 0) continue;
        const int64_t i = rows.first * stride + p - padding.top, j = columns.first * stride + q - padding.left;
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t tap = run * group / groups, end = run * (group + 1) / groups;
          kernels_.weight_gradient({.x = x + ((i * width + j) * in + tap) * lanes_,
                                    .x_row = stride * width * in * lanes_,
                                    .x_column = stride * in * lanes_,
                                    .dy = dy + (rows.first * out_.w + columns.first) * out_.c * lanes_,
                                    .dy_row = out_.w * out_.c * lanes_,
                                    .dy_column = out_.c * lanes_,
                                    .rows = rows.size(),
                                    .columns = columns.size(),
                                    .outs = outs,
                                    .taps = static_cast<int>(end - tap),
                                    .sums = sums + ((p * kernel + q) * in + tap) * lanes_,
                                    .sums_out = taps() * in * lanes_});
        }
      }
    }
  }

  void input_row(const float* dy, int64_t row, float* dx) const {
    const auto& [kernel, stride, padding, dilation] = desc_.window;
    const auto& [height, width, in] = desc_.input;
    std::fill_n(dx, width * in * lanes_, 0.0f);
    // The kernel rows that read this input row: `first`, first + stride, ... Each step goes to the previous output row.
    const int64_t top_row = std::min(out_.h - 1, (row + padding.top) / stride);
    const int64_t first = row + padding.top - top_row * stride;
    if (first >= kernel) return;
    const int64_t segments = std::min((kernel - 1 - first) / stride + 1, top_row + 1);
    for (int64_t tile = 0; tile < ceil_div(in, kTile); ++tile)
      for (int64_t q = 0; q < kernel; ++q) {
        const Interval columns = valid_outputs(out_.w, width, stride, q - padding.left);
        if (columns.size() == 0) continue;
        const int64_t c = tile * kTile;
        kernels_.sum({.x = dy + (top_row * out_.w + columns.first) * out_.c * lanes_,
                      .x_pixel = out_.c * lanes_,
                      .x_segment = -out_.w * out_.c * lanes_,
                      .x_step = lanes_,
                      .w = input_weights_.as<float>() + ((tile * kernel + q) * kernel + first) * out_.c * kTile,
                      .w_segment = stride * out_.c * kTile,
                      .segments = segments,
                      .count = out_.c,
                      .pixels = columns.size(),
                      .y = dx + ((columns.first * stride + q - padding.left) * in + c) * lanes_,
                      .y_pixel = stride * in * lanes_,
                      .y_row = lanes_,
                      .rows = static_cast<int>(std::min<int64_t>(kTile, in - c)),
                      .bias = nullptr,
                      .relu = false,
                      .add = true});
      }
  }

  Workers workers_;
  Conv2dDesc desc_;
  ImageShape out_;
  int lanes_;
  const LaneKernels& kernels_;
  int64_t piece_;           // rows of the output
  Buffer forward_weights_;  // [output tile][p][q][c][kTile]
  Buffer input_weights_;    // [input tile][q][p][o][kTile]
  Buffer weight_sums_;      // [out][p][q][c][lane]
  const float* bias_ = nullptr;
};

}  // namespace

std::unique_ptr<Conv2d> make_lane_conv2d(const Workers& workers, const Conv2dDesc& desc) {
  DDP_EXPECT(desc.input_format.kind == Format::Kind::batch_interleaved);
  return std::make_unique<LaneConv2d>(workers, desc);
}

}  // namespace ddp
