/// Matrix products by NVIDIA's cuBLAS, by declarations of our own and found at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "device/cuda/cuda_context.h"
#include "device/cuda/cuda_library.h"
#include "device/gpu/vendor_library.h"

// NOLINTBEGIN(readability-identifier-naming): everything is called as cuBLAS calls it.
struct cublasContext;

namespace tandem::devices::cuda {

using cublasHandle_t = cublasContext*;
enum cublasStatus_t : unsigned {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum cublasOperation_t : unsigned { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasMath_t : unsigned { CUBLAS_DEFAULT_MATH = 0, CUBLAS_TF32_TENSOR_OP_MATH = 3 };
enum libraryPropertyType : unsigned { MAJOR_VERSION = 0, MINOR_VERSION = 1 };

/// Every function that returns cublasStatus_t: its name, then its parameters.
#define TANDEM_CUBLAS_FUNCTIONS(FUNCTION)                                                       \
  FUNCTION(cublasCreate_v2, cublasHandle_t*)                                                    \
  FUNCTION(cublasDestroy_v2, cublasHandle_t)                                                    \
  FUNCTION(cublasGetProperty, libraryPropertyType, int*)                                        \
  FUNCTION(cublasSetStream_v2, cublasHandle_t, CUstream)                                        \
  FUNCTION(cublasSetWorkspace_v2, cublasHandle_t, void*, size_t)                                \
  FUNCTION(cublasSetMathMode, cublasHandle_t, cublasMath_t)                                     \
  FUNCTION(cublasSgemmStridedBatched_64, cublasHandle_t, cublasOperation_t, cublasOperation_t,  \
           int64_t, int64_t, int64_t, const float*, const float*, int64_t, long long,           \
           const float*, int64_t, long long, const float*, float*, int64_t, long long, int64_t) \
  FUNCTION(cublasDgemmStridedBatched_64, cublasHandle_t, cublasOperation_t, cublasOperation_t,  \
           int64_t, int64_t, int64_t, const double*, const double*, int64_t, long long,         \
           const double*, int64_t, long long, const double*, double*, int64_t, long long, int64_t)

struct CublasApi {
#define TANDEM_MEMBER(name, ...) cublasStatus_t (*name)(__VA_ARGS__);
  TANDEM_CUBLAS_FUNCTIONS(TANDEM_MEMBER)
#undef TANDEM_MEMBER
  const char* (*cublasGetStatusString)(cublasStatus_t);
};
// NOLINTEND(readability-identifier-naming)

/// The library, or why there is none: what was looked for and what was found.
struct LoadedCublas {
  const CublasApi* api = nullptr;
  std::string found{};  ///< "libcublas.so.13, version 13.0"
  std::string missing{};
};

/// Loads the library when it is first asked for.
const LoadedCublas& load_cublas(const DriverApi& driver);

/// Products on the device of `context`.
std::shared_ptr<gpu::ProductLibrary> cublas_products(const CublasApi& api,
                                                     std::shared_ptr<CudaContext> context);

}  // namespace tandem::devices::cuda
