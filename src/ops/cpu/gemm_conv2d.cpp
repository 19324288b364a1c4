#include "core/error.h"
#include "device/buffer.h"
#include "ops/cpu/column_sums.h"
#include "ops/cpu/conv2d.h"
#include "ops/cpu/dnnl.h"
#include "ops/cpu/layout.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

namespace ddp {
namespace {

constexpr int64_t kMostTile = 384;                // columns of a product
constexpr int64_t kItemFloats = 512 * 1024;       // of the wider operand of an item
constexpr int64_t kFewWeights = 64 * 1024;        // up to this, parts of the rows have weight gradients of their own
constexpr int64_t kMostParts = 16;                // of the rows, for the weight gradient
constexpr int64_t kMinRows = 768, kRound = 1024;  // of an item, and of a weight gradient between two polls

// A convolution with 1 x 1 windows of stride 1 on dense activations: matrix products over rows = samples x positions,
//   y = x W^T, dx = dy W, dW = dy^T x.
// The items of a product depend on its shape only, and each runs on one thread: the result does not depend on the
// number of threads.
class GemmConv2d final : public Conv2d {
 public:
  GemmConv2d(const Workers& workers, std::shared_ptr<Scratch> scratch, const Conv2dDesc& desc,
             std::span<const int64_t> batch_sizes)
      : workers_(workers),
        scratch_(std::move(scratch)),
        desc_(desc),
        in_(desc.input.c),
        out_(desc.out_channels),
        positions_(desc.input.h * desc.input.w),
        max_batch_(batch_sizes.empty() ? 0 : *std::max_element(batch_sizes.begin(), batch_sizes.end())) {
    for (const int64_t n : batch_sizes) scratch_->reserve(sizeof(float) * scratch_floats(n * positions_));
  }

  Format output_format() const override { return {}; }

  void bind(const WeightData& weight, const WeightData& bias) override {
    weight_ = weight.f32;
    bias_ = bias.f32;
  }

  void forward(const Tensor& x, const Tensor& y) override {
    const DenseKernels& kernels = workers_.kernels.f32.dense;
    each_tile(rows(x, y), in_, out_, [&](Interval rows, Interval tile) {
      float* const to = y.f32() + rows.first * out_ + tile.first;
      multiply(false, true, rows.size(), tile.size(), in_, x.f32() + rows.first * in_, in_, weight_ + tile.first * in_,
               in_, to, out_, false);
      if (desc_.bias || desc_.relu)
        kernels.add_bias(to, rows.size(), tile.size(), out_, desc_.bias ? bias_ + tile.first : nullptr, desc_.relu);
    });
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t*) override {
    const int64_t count = rows(x, dy);
    auto* const scratch = static_cast<float*>(scratch_->data());
    column_gradient(workers_, desc_.relu ? y : Tensor{}, dy, sums_bias(desc_) ? dbias : nullptr, mode, scratch);
    if (!dweight) return;
    const int64_t parts = parts_of(count), part = ceil_div(count, parts), size = in_ * out_;
    const int64_t tile = tile_of(out_), tiles = ceil_div(out_, tile);
    for (int64_t round = 0; round < part; round += kRound)
      workers_.each(parts * tiles, [&](int64_t item) {
        const int64_t p = item / tiles, o = item % tiles * tile;
        const int64_t first = p * part + round, end = std::min({first + kRound, (p + 1) * part, count});
        if (first >= end) return;
        float* const to = (p == 0 ? dweight : scratch + (p - 1) * size) + o * in_;
        multiply(true, false, std::min(tile, out_ - o), in_, end - first, dy.f32() + first * out_ + o, out_,
                 x.f32() + first * in_, in_, to, in_, round > 0 || (p == 0 && mode == Gradient::add));
      });
    check_products();
    workers_.spans(parts > 1 ? size : 0, [&](int64_t first, int64_t end) {
      for (int64_t p = 1; p < ceil_div(count, part); ++p)
        workers_.kernels.flat.add(scratch + (p - 1) * size + first, dweight + first, end - first);
    });
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    DDP_EXPECT(desc_.input_gradient);
    each_tile(rows(dx, dy), out_, in_, [&](Interval rows, Interval tile) {
      multiply(false, false, rows.size(), tile.size(), out_, dy.f32() + rows.first * out_, out_, weight_ + tile.first,
               in_, dx.f32() + rows.first * in_ + tile.first, in_, false);
    });
  }

 private:
  // Row-major c[m][n] = a * b (+ c), on the calling thread. A transposed a is stored as [k][m], a transposed b as
  // [n][k]. oneDNN takes the memory of its packed operands from malloc(). The calls run in items, which must not throw:
  // the status waits for check_products().
  void multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t row_of_a,
                const float* b, int64_t row_of_b, float* c, int64_t row_of_c, bool add) {
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    const dnnl_status_t status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a,
                                            row_of_a, b, row_of_b, add ? 1.0f : 0.0f, c, row_of_c);
    omp_set_num_threads(threads);
    if (status != dnnl_success) status_ = status;
  }

  void check_products() const {
    require(status_ == dnnl_success, Exit::device, "oneDNN cannot multiply matrices: status {}",
            static_cast<int>(status_.load()));
  }

  // Equal tiles of at most kMostTile columns, in whole vectors.
  static int64_t tile_of(int64_t columns) { return ceil_div(ceil_div(columns, ceil_div(columns, kMostTile)), 16) * 16; }

  int64_t parts_of(int64_t rows) const {
    return in_ * out_ > kFewWeights ? 1 : std::clamp<int64_t>(rows / (2 * kRound), 1, kMostParts);
  }

  int64_t scratch_floats(int64_t rows) const {
    const int64_t of_weights = desc_.weight_gradient ? (parts_of(rows) - 1) * in_ * out_ : 0;
    return std::max(of_weights, sums_bias(desc_) ? column_gradient_floats(out_) : 0);
  }

  // Calls product(rows, columns) for the items of a product with `inner` summands and `outer` columns.
  template <class F>
  void each_tile(int64_t rows, int64_t inner, int64_t outer, F&& product) {
    const int64_t tile = tile_of(outer), tiles = ceil_div(outer, tile);
    const int64_t most = std::max(kMinRows, kItemFloats / std::max(inner, tile));
    workers_.each(ceil_div(rows, most) * tiles, [&](int64_t item) {
      const int64_t row = item / tiles * most, column = item % tiles * tile;
      product(Interval{row, std::min(row + most, rows)}, Interval{column, std::min(column + tile, outer)});
    });
    check_products();
  }

  int64_t rows(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.format == Format{} && y.format == Format{} && x.dtype == DType::f32 && y.dtype == DType::f32);
    DDP_EXPECT(x.shape.image.elements() == desc_.input.elements() && y.shape.image.elements() == positions_ * out_);
    require(x.shape.n == y.shape.n && x.shape.n <= max_batch_, Exit::internal,
            "a product planned for up to {} samples was given {}", max_batch_, x.shape.n);
    return x.shape.n * positions_;
  }

  Workers workers_;
  std::shared_ptr<Scratch> scratch_;
  Conv2dDesc desc_;
  int64_t in_, out_, positions_, max_batch_;
  const float *weight_ = nullptr, *bias_ = nullptr;
  std::atomic<dnnl_status_t> status_ = dnnl_success;  // of the last product that failed
};

}  // namespace

bool is_product(const Conv2dDesc& d) {
  return d.groups == 1 && d.window.kernel == 1 && d.window.stride == 1 && d.window.padding.none();
}

std::unique_ptr<Conv2d> make_gemm_conv2d(const Workers& workers, const std::shared_ptr<Scratch>& scratch,
                                         const Conv2dDesc& desc, std::span<const int64_t> batch_sizes) {
  DDP_EXPECT(is_product(desc) && desc.input_format == Format{});
  return std::make_unique<GemmConv2d>(workers, scratch, desc, batch_sizes);
}

}  // namespace ddp
