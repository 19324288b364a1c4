// The functions of cuBLASLt that this room calls. The library is loaded at the first call, not at the start of the
// program: it relocates 100 MB at each start, which takes 50 ms and 200 MB on ranks that have no GPU.
#include "core/error.h"

#include <cublasLt.h>
#include <dlfcn.h>

namespace ddp {
namespace {

// By its name, as the loader finds all libraries, then in the folder in which the build found it.
void* open_cublas_lt() {
  for (const char* const file : {DDP_CUBLASLT_NAME, DDP_CUBLASLT_FILE})
    if (void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return library;
  fail(Exit::device, "cannot load cuBLASLt: {}. Install it, or add its folder to LD_LIBRARY_PATH", dlerror());
}

template <class Function>
Function* find(const char* name) {
  static void* const library = open_cublas_lt();
  void* const function = dlsym(library, name);
  require(function != nullptr, Exit::device, "cuBLASLt has no function {}: install the version of CUDA {}", name,
          CUDART_VERSION / 1000);
  return reinterpret_cast<Function*>(function);
}

}  // namespace
}  // namespace ddp

// Hidden: other libraries that use cuBLASLt get its own functions.
#define DDP_FORWARD(result, name, parameters, arguments)                      \
  __attribute__((visibility("hidden"))) result CUBLASWINAPI name parameters { \
    static const auto function = ::ddp::find<decltype(name)>(#name);          \
    return function arguments;                                                \
  }

extern "C" {
DDP_FORWARD(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle), (handle))
DDP_FORWARD(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle), (handle))
DDP_FORWARD(const char*, cublasLtGetStatusName, (cublasStatus_t status), (status))
DDP_FORWARD(const char*, cublasLtGetStatusString, (cublasStatus_t status), (status))
DDP_FORWARD(size_t, cublasLtGetVersion, (), ())
DDP_FORWARD(cublasStatus_t, cublasLtMatrixLayoutCreate,
            (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld),
            (layout, type, rows, columns, ld))
DDP_FORWARD(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (layout))
DDP_FORWARD(cublasStatus_t, cublasLtMatmulDescCreate,
            (cublasLtMatmulDesc_t * operation, cublasComputeType_t compute, cudaDataType_t scale),
            (operation, compute, scale))
DDP_FORWARD(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t operation), (operation))
DDP_FORWARD(cublasStatus_t, cublasLtMatmulDescSetAttribute,
            (cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const void* value, size_t size),
            (operation, attribute, value, size))
DDP_FORWARD(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference), (preference))
DDP_FORWARD(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference), (preference))
DDP_FORWARD(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,
            (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
             size_t size),
            (preference, attribute, value, size))
DDP_FORWARD(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,
            (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
             cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
             cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t* found, int* count),
            (handle, operation, a, b, c, d, preference, wanted, found, count))
DDP_FORWARD(cublasStatus_t, cublasLtMatmulAlgoCheck,
            (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
             cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
             const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* found),
            (handle, operation, a, b, c, d, algorithm, found))
DDP_FORWARD(cublasStatus_t, cublasLtMatmul,
            (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
             cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
             const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
             const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes, cudaStream_t stream),
            (handle, operation, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace,
             bytes, stream))
}  // extern "C"

#undef DDP_FORWARD
