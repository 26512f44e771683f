/// Matrix products with a bias in the same call, by NVIDIA's cuBLASLt, by declarations of our own
/// and found at run time. It takes the handles of cuBLAS, whose products have no epilogues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "device/cuda/cuda_cublas.h"

// NOLINTBEGIN(readability-identifier-naming): everything is called as cuBLASLt calls it.
struct cublasLtContext;

namespace tandem::devices::cuda {

struct cublasLtMatmulDescOpaque_t {
  uint64_t data[32];
};
struct cublasLtMatrixLayoutOpaque_t {
  uint64_t data[8];
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t data[8];
};
struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};

using cublasLtHandle_t = cublasLtContext*;
using cublasLtMatmulDesc_t = cublasLtMatmulDescOpaque_t*;
using cublasLtMatrixLayout_t = cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulPreference_t = cublasLtMatmulPreferenceOpaque_t*;

enum cudaDataType_t : unsigned { CUDA_R_32F = 0 };
enum cublasComputeType_t : unsigned {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};
enum cublasLtMatmulDescAttributes_t : unsigned {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
};
enum cublasLtEpilogue_t : unsigned { CUBLASLT_EPILOGUE_BIAS = 4 };
enum cublasLtMatmulPreferenceAttributes_t : unsigned {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

/// Every function that returns cublasStatus_t: its name, then its parameters.
#define TANDEM_CUBLASLT_FUNCTIONS(FUNCTION)                                                       \
  FUNCTION(cublasLtMatmulDescCreate, cublasLtMatmulDesc_t*, cublasComputeType_t, cudaDataType_t)  \
  FUNCTION(cublasLtMatmulDescDestroy, cublasLtMatmulDesc_t)                                       \
  FUNCTION(cublasLtMatmulDescSetAttribute, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t,  \
           const void*, size_t)                                                                   \
  FUNCTION(cublasLtMatrixLayoutCreate, cublasLtMatrixLayout_t*, cudaDataType_t, uint64_t,         \
           uint64_t, int64_t)                                                                     \
  FUNCTION(cublasLtMatrixLayoutDestroy, cublasLtMatrixLayout_t)                                   \
  FUNCTION(cublasLtMatmulPreferenceCreate, cublasLtMatmulPreference_t*)                           \
  FUNCTION(cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t)                           \
  FUNCTION(cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreference_t,                      \
           cublasLtMatmulPreferenceAttributes_t, const void*, size_t)                             \
  FUNCTION(cublasLtMatmulAlgoGetHeuristic, cublasLtHandle_t, cublasLtMatmulDesc_t,                \
           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,                \
           cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,                               \
           cublasLtMatmulHeuristicResult_t*, int*)                                                \
  FUNCTION(cublasLtMatmul, cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,      \
           cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t, const void*, const void*, \
           cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*,    \
           void*, size_t, CUstream)

struct CublasLtApi {
#define TANDEM_MEMBER(name, ...) cublasStatus_t (*name)(__VA_ARGS__);
  TANDEM_CUBLASLT_FUNCTIONS(TANDEM_MEMBER)
#undef TANDEM_MEMBER
  size_t (*cublasLtGetVersion)();
};
// NOLINTEND(readability-identifier-naming)

/// The library, or why there is none: what was looked for and what was found.
struct LoadedCublasLt {
  const CublasLtApi* api = nullptr;
  std::string found{};  ///< "libcublasLt.so.13, version 13.0"
  std::string missing{};
};

/// Loads the library when it is first asked for.
const LoadedCublasLt& load_cublaslt(const DriverApi& driver);

/// A stream's handle of cuBLAS, with its workspace.
struct CublasLtStream {
  cublasLtHandle_t handle = nullptr;
  CUstream stream = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

/// Products of float32 with a bias. Any number of threads may use it at once.
class BiasedProducts {
 public:
  explicit BiasedProducts(const CublasLtApi& api);
  ~BiasedProducts();
  BiasedProducts(const BiasedProducts&) = delete;
  BiasedProducts& operator=(const BiasedProducts&) = delete;

  struct Operands {
    const void* a;
    const void* b;
    const void* bias;
    void* c;
  };

  /// As gpu::ProductLibrary::multiply_with_bias, with the context current. What cuBLASLt answers
  /// where it has an algorithm for the shape; CUBLAS_STATUS_NOT_SUPPORTED where it has none, and
  /// nothing is issued.
  cublasStatus_t multiply(const CublasLtStream& stream, const gpu::MatrixProduct& shape,
                          const Operands& operands, bool is_rounded);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::devices::cuda
