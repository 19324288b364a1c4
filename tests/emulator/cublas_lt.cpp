#include "core/bf16.h"

#include <cublasLt.h>
#include <emulator/emulator.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

namespace {

constexpr uint64_t kOnlyAlgorithm = 7;

float load(const void* matrix, int32_t type, int64_t at) {
  if (type == CUDA_R_32F) return static_cast<const float*>(matrix)[at];
  return ddp::float_of_bf16(static_cast<const uint16_t*>(matrix)[at]);
}

void store(void* matrix, int32_t type, int64_t at, double value) {
  const auto rounded = static_cast<float>(value);
  if (type == CUDA_R_32F)
    static_cast<float*>(matrix)[at] = rounded;
  else
    static_cast<uint16_t*>(matrix)[at] = ddp::bf16_of_float(rounded);
}

struct Matrix {
  void* data;
  cublasLtMatrixLayoutOpaque_t layout;
  bool transposed = false;

  int64_t rows() const { return transposed ? layout.columns : layout.rows; }
  int64_t columns() const { return transposed ? layout.rows : layout.columns; }
  int64_t at(int64_t row, int64_t column) const {
    return transposed ? row * layout.ld + column : column * layout.ld + row;
  }
  float value(int64_t row, int64_t column) const { return load(data, layout.type, at(row, column)); }
};

void multiply(const Matrix& a, const Matrix& b, const Matrix& d, const cublasLtMatmulDescOpaque_t& operation,
              bool add) {
  for (int64_t i = 0; i < d.rows(); ++i)
    for (int64_t j = 0; j < d.columns(); ++j) {
      double sum = add ? d.value(i, j) : 0.0;
      for (int64_t k = 0; k < a.columns(); ++k) sum += static_cast<double>(a.value(i, k)) * b.value(k, j);
      if (operation.bias) sum += load(operation.bias, operation.bias_type, i);
      if (operation.epilogue == CUBLASLT_EPILOGUE_RELU || operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
        sum = std::max(sum, 0.0);
      store(d.data, d.layout.type, d.at(i, j), sum);
    }
}

bool aligned(std::initializer_list<const void*> pointers) {
  return std::ranges::all_of(pointers, [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
}

template <class T>
cublasStatus_t set(T& field, const void* value, size_t size) {
  if (size != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INVALID_VALUE";
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t, cudaDataType_t) {
  *operation = new cublasLtMatmulDescOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(operation->a, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(operation->b, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(operation->epilogue, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(operation->bias, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(operation->bias_type, value, size);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t* found,
                                              int* count) {
  *found = {{{kOnlyAlgorithm}}, 0};
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* found) {
  *found = {*algorithm, 0};
  return algorithm->data[0] == kOnlyAlgorithm ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t bytes, cudaStream_t stream) {
  const Matrix left{const_cast<void*>(a), *a_layout, operation->a == CUBLAS_OP_T};
  const Matrix right{const_cast<void*>(b), *b_layout, operation->b == CUBLAS_OP_T}, result{d, *d_layout};
  const float scale = *static_cast<const float*>(alpha), more = *static_cast<const float*>(beta);
  const bool fits =
      left.columns() == right.rows() && left.rows() == result.rows() && right.columns() == result.columns();
  const bool biased =
      operation->epilogue == CUBLASLT_EPILOGUE_BIAS || operation->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  if (!fits || scale != 1 || (more != 0 && more != 1) || c != d || !aligned({a, b, d, operation->bias}) ||
      biased != (operation->bias != nullptr) || (biased && operation->bias_type != d_layout->type) ||
      a_layout->type != b_layout->type || algorithm->data[0] != kOnlyAlgorithm)
    return CUBLAS_STATUS_INVALID_VALUE;
  emulator::call_library(stream, [=, as = *operation] {
    multiply(left, right, result, as, more == 1);
    std::memset(workspace, 0xff, std::min<size_t>(bytes, 4096));
  });
  return CUBLAS_STATUS_SUCCESS;
}
