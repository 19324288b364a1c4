#include "ops/cuda/cublas_matmul.h"

#include "core/error.h"

namespace ddp {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr uint32_t kAlignment = 16;  // of all matrices, in bytes

cudaDataType_t type_of(DType dtype) { return dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF; }

cublasComputeType_t compute_type(Precision precision) {
  return precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasLtMatrixLayout_t make_layout(DType dtype, int64_t rows, int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  DDP_CUBLAS(cublasLtMatrixLayoutCreate(&layout, type_of(dtype), rows, columns, rows));
  return layout;
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  DDP_CUBLAS(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value));
}

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  DDP_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
}

}  // namespace

void check_cublas(cublasStatus_t result, const char* call, const char* file, int line) {
  require(result == CUBLAS_STATUS_SUCCESS, Exit::device, "{}:{}: {}: {} ({})", file, line, call,
          cublasLtGetStatusString(result), cublasLtGetStatusName(result));
}

Matmul::Matmul(cublasLtHandle_t library, CudaContext& context, const MatmulDesc& desc,
               const cublasLtMatmulAlgo_t* wanted)
    : library_(library), context_(context), desc_(desc) {
  const auto& [m, n, k, transpose_a, transpose_b, inputs, output, bias, relu] = desc;
  cublasLtMatmulDesc_t operation = nullptr;
  DDP_CUBLAS(cublasLtMatmulDescCreate(&operation, compute_type(context.config.precision), CUDA_R_32F));
  operation_.reset(operation);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (relu) set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU);
  if (bias && !relu) set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  if (bias) set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(type_of(output)));
  a_.reset(transpose_a ? make_layout(inputs, k, m) : make_layout(inputs, m, k));
  b_.reset(transpose_b ? make_layout(inputs, n, k) : make_layout(inputs, k, n));
  d_.reset(make_layout(output, m, n));
  context.workspace.reserve(kWorkspaceBytes);
  choose(wanted);
}

// Split-k partial sums are added in f32, in a fixed order. Reduction schemes that work in place or in the type of a
// bf16 output are not allowed.
void Matmul::choose(const cublasLtMatmulAlgo_t* wanted) {
  cublasLtMatmulHeuristicResult_t found{};
  if (wanted &&
      cublasLtMatmulAlgoCheck(library_, operation_.get(), a_.get(), b_.get(), d_.get(), d_.get(), wanted, &found) ==
          CUBLAS_STATUS_SUCCESS &&
      found.workspaceSize <= kWorkspaceBytes) {
    algorithm_ = *wanted;
    return;
  }
  cublasLtMatmulPreference_t created = nullptr;
  DDP_CUBLAS(cublasLtMatmulPreferenceCreate(&created));
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy<cublasLtMatmulPreferenceDestroy>> preference(created);
  set(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
  set(created, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(created, attribute, kAlignment);
  int count = 0;
  const cublasStatus_t result = cublasLtMatmulAlgoGetHeuristic(library_, operation_.get(), a_.get(), b_.get(), d_.get(),
                                                               d_.get(), created, 1, &found, &count);
  require(result == CUBLAS_STATUS_SUCCESS && count > 0, Exit::device,
          "cuBLASLt has no algorithm for a product of {} x {} x {}: {}", desc_.m, desc_.n, desc_.k,
          cublasLtGetStatusString(result));
  algorithm_ = found.algo;
}

void Matmul::set_bias(const void* bias) { set(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }

void Matmul::run(const void* a, const void* b, void* d, bool add) const {
  const float one = 1, beta = add ? 1.0f : 0.0f;
  DDP_CUBLAS(cublasLtMatmul(library_, operation_.get(), &one, a, a_.get(), b, b_.get(), &beta, d, d_.get(), d, d_.get(),
                            &algorithm_, context_.workspace.data(), kWorkspaceBytes, context_.stream));
}

}  // namespace ddp
