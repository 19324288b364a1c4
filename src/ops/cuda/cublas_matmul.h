// A planned matrix product with cuBLASLt: d = op(a) * op(b) (+ d), where op(a) is m x k and op(b) is k x n. Matrices
// are column-major.
#pragma once

#include "ops/cuda/context.h"

#include <cublasLt.h>

#include <cstdint>
#include <memory>

namespace ddp {

// Throws Error(Exit::device) with the call, its position and the text of cuBLASLt, unless the call succeeded.
void check_cublas(cublasStatus_t result, const char* call, const char* file, int line);
#define DDP_CUBLAS(call) ::ddp::check_cublas((call), #call, __FILE__, __LINE__)

using CublasLt = std::unique_ptr<cublasLtContext, Destroy<cublasLtDestroy>>;

struct MatmulDesc {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;  // in memory, a is then k x m, and b is n x k
  DType inputs = DType::f32, output = DType::f32;
  bool bias = false, relu = false;  // one bias per row of d, of the type of d
};

class Matmul {
 public:
  // Uses the algorithm `wanted` if it supports this product, else the first choice of cuBLASLt. `wanted` may be null.
  // Throws Error(Exit::device) if there is no algorithm.
  Matmul(cublasLtHandle_t library, CudaContext& context, const MatmulDesc& desc, const cublasLtMatmulAlgo_t* wanted);

  const cublasLtMatmulAlgo_t& algorithm() const { return algorithm_; }
  void set_bias(const void* bias);  // bias and all matrices are 16-byte aligned
  void run(const void* a, const void* b, void* d, bool add) const;

 private:
  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy<cublasLtMatrixLayoutDestroy>>;
  using Operation = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy<cublasLtMatmulDescDestroy>>;

  void choose(const cublasLtMatmulAlgo_t* wanted);

  cublasLtHandle_t library_;
  CudaContext& context_;
  MatmulDesc desc_;
  Operation operation_;
  Layout a_, b_, d_;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace ddp
