// One matrix product by cuBLASLt, planned once. Matrices are column-major: d = op(a) * op(b) (+ d), m x n, over k.
#pragma once

#include "ops/cuda/context.h"

#include <cublasLt.h>

#include <cstdint>
#include <memory>

namespace ddp {

void check_cublas(cublasStatus_t result, const char* call, const char* file, int line);
#define DDP_CUBLAS(call) ::ddp::check_cublas((call), #call, __FILE__, __LINE__)

using CublasLt = std::unique_ptr<cublasLtContext, Destroy<cublasLtDestroy>>;

struct MatmulDesc {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;  // a is k x m, b is n x k in memory
  DType inputs = DType::f32, output = DType::f32;
  bool bias = false, relu = false;  // one bias for each row of d, of the type of d
};

class Matmul {
 public:
  // Plans with `wanted` where that algorithm can do it, else with cuBLASLt's first choice.
  Matmul(cublasLtHandle_t library, CudaContext& context, const MatmulDesc& desc, const cublasLtMatmulAlgo_t* wanted);

  const cublasLtMatmulAlgo_t& algorithm() const { return algorithm_; }
  void set_bias(const void* bias);  // 16-byte aligned, as are all matrices
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
