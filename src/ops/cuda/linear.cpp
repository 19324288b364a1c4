#include "core/error.h"
#include "ops/cuda/bias_gradient.h"
#include "ops/cuda/cublas_matmul.h"
#include "ops/cuda/cuda_ops.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <utility>

namespace ddp {

struct CublasLibrary {
  CublasLt handle = create();

 private:
  static CublasLt create() {
    cublasLtHandle_t created = nullptr;
    DDP_CUBLAS(cublasLtCreate(&created));
    return CublasLt(created);
  }
};

namespace {

constexpr size_t kAlgorithmWords = sizeof(cublasLtMatmulAlgo_t) / sizeof(int64_t);
using AlgorithmWords = std::array<int64_t, kAlgorithmWords>;
static_assert(sizeof(AlgorithmWords) == sizeof(cublasLtMatmulAlgo_t));

// A row-major n x c matrix is a column-major c x n matrix. In column-major terms, with rows = samples x positions, x is
// in x rows, w is in x out and y is out x rows: y = w^T x, dw = x dy^T, dx = w dy.
struct Shapes {
  int64_t in, out;
  DType activations;
  bool bias, relu;

  MatmulDesc forward(int64_t rows) const {
    return {.m = out,
            .n = rows,
            .k = in,
            .transpose_a = true,
            .inputs = activations,
            .output = activations,
            .bias = bias,
            .relu = relu};
  }
  MatmulDesc weight_gradient(int64_t rows) const {
    return {.m = in, .n = out, .k = rows, .transpose_b = true, .inputs = activations, .output = DType::f32};
  }
  MatmulDesc input_gradient(int64_t rows) const {
    return {.m = in, .n = rows, .k = out, .inputs = activations, .output = activations};
  }
};

// A linear layer with cuBLASLt; the epilogue adds the bias and applies the ReLU.
class CublasLinear final : public Linear {
 public:
  CublasLinear(std::shared_ptr<CublasLibrary> library, CudaContext& context, const LinearDesc& desc,
               std::span<const int64_t> batch_sizes)
      : library_(std::move(library)),
        context_(context),
        desc_(desc),
        shapes_{desc.in_features, desc.out_features, context.activations(), desc.bias, desc.relu} {
    DDP_EXPECT(desc.input_format == Format{} && !batch_sizes.empty());
    const int64_t largest = *std::max_element(batch_sizes.begin(), batch_sizes.end());
    plan(forward_, &Shapes::forward, batch_sizes, largest);
    if (desc.weight_gradient) plan(weight_gradient_, &Shapes::weight_gradient, batch_sizes, largest);
    if (desc.input_gradient) plan(input_gradient_, &Shapes::input_gradient, batch_sizes, largest);
    reserve_bias_gradient(context, largest * desc.positions, desc.out_features);
  }

  Format output_format() const override { return {}; }

  void bind(const WeightData& weight, const WeightData& bias) override {
    weight_ = weight.as(shapes_.activations);
    if (!desc_.bias) return;
    for (auto& [n, product] : forward_) product.set_bias(bias.as(shapes_.activations));
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x, y);
    at(forward_, x).run(weight_, x.data, y.data, false);
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t*) override {
    check(x, dy);
    bias_gradient(context_, desc_.relu ? y : Tensor{}, dy, dbias, mode);
    if (dweight) at(weight_gradient_, x).run(x.data, dy.data, dweight, mode == Gradient::add);
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    check(dx, dy);
    at(input_gradient_, dx).run(weight_, dy.data, dx.data, false);
  }

 private:
  using Products = std::map<int64_t, Matmul>;  // by batch size

  // All ranks use the algorithm that rank 0 selects for the largest batch, for all batch sizes that it supports.
  void plan(Products& products, MatmulDesc (Shapes::*shape)(int64_t) const, std::span<const int64_t> batch_sizes,
            int64_t largest) {
    const Matmul mine(library_->handle.get(), context_, (shapes_.*shape)(largest * desc_.positions), nullptr);
    auto words = std::bit_cast<AlgorithmWords>(mine.algorithm());
    if (const AgreeFn& agree = context_.config.measuring.agree) agree(words);
    const auto agreed = std::bit_cast<cublasLtMatmulAlgo_t>(words);
    for (const int64_t n : batch_sizes)
      products.try_emplace(n, library_->handle.get(), context_, (shapes_.*shape)(n * desc_.positions), &agreed);
  }

  const Matmul& at(const Products& products, const Tensor& t) const {
    const auto found = products.find(t.shape.n);
    require(found != products.end(), Exit::internal, "a linear layer was not planned for {} samples", t.shape.n);
    return found->second;
  }

  void check(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.shape.n == y.shape.n && x.format == Format{} && y.format == Format{});
    DDP_EXPECT(x.shape.image.elements() == desc_.positions * desc_.in_features);
    DDP_EXPECT(y.shape.image.elements() == desc_.positions * desc_.out_features);
    DDP_EXPECT(y.shape.image.c == desc_.out_features);  // bias_gradient sums its columns
    DDP_EXPECT(x.dtype == shapes_.activations && y.dtype == shapes_.activations);
  }

  std::shared_ptr<CublasLibrary> library_;
  CudaContext& context_;
  LinearDesc desc_;
  Shapes shapes_;
  const void* weight_ = nullptr;
  Products forward_, weight_gradient_, input_gradient_;
};

}  // namespace

std::shared_ptr<CublasLibrary> load_cublas() { return std::make_shared<CublasLibrary>(); }

std::unique_ptr<Linear> CudaOps::linear(const LinearDesc& desc, std::span<const int64_t> batch_sizes) {
  return std::make_unique<CublasLinear>(cublas_, context_, desc, batch_sizes);
}

std::string describe_cublas() {
  const size_t version = cublasLtGetVersion();  // 130100
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace ddp
