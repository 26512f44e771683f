// Our declarations of NVIDIA's libraries, held against the real headers where those are installed.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_cublas.h"
#include "device/cuda/cuda_cublaslt.h"
#include "device/cuda/cuda_cudnn.h"
#include "device/cuda/cuda_nccl.h"
#include "device/cuda/cuda_nvrtc.h"

/// The header has a macro of this name.
[[maybe_unused]] constexpr unsigned kPortable = tandem::devices::cuda::CU_MEMHOSTALLOC_PORTABLE;

#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>) && __has_include(<cublasLt.h>) && \
    __has_include(<cublas_v2.h>) && __has_include(<cudnn.h>) && __has_include(<nccl.h>)
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cudnn.h>
#include <nccl.h>
#include <nvrtc.h>

// cuDNN marks its calls for single convolutions as deprecated.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace tandem::devices::cuda {
namespace {

/// The same type, or an enumeration or a structure of the same size: those are ours.
template <class Ours, class Theirs>
constexpr bool same_type() {
  if constexpr (std::is_same_v<Ours, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using O = std::remove_pointer_t<Ours>;
    using T = std::remove_pointer_t<Theirs>;
    return std::is_const_v<O> == std::is_const_v<T> &&
           same_type<std::remove_const_t<O>, std::remove_const_t<T>>();
  } else if constexpr (std::is_enum_v<Ours> && std::is_enum_v<Theirs>) {
    return std::is_same_v<std::underlying_type_t<Ours>, std::underlying_type_t<Theirs>>;
  } else if constexpr (std::is_class_v<Ours> && std::is_class_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);
  } else {
    return false;
  }
}

template <class Ours, class Theirs>
struct SameFunction : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameFunction<R(A...), S(B...)>
    : std::bool_constant<same_type<R, S>() && (same_type<A, B>() && ...)> {
};

#define TANDEM_CHECK(name, ...) \
  static_assert(SameFunction<CUresult(__VA_ARGS__), decltype(::name)>::value, #name);
TANDEM_CUDA_FUNCTIONS(TANDEM_CHECK)
#undef TANDEM_CHECK

#define TANDEM_CHECK(name, ...) \
  static_assert(SameFunction<nvrtcResult(__VA_ARGS__), decltype(::name)>::value, #name);
TANDEM_NVRTC_FUNCTIONS(TANDEM_CHECK)
#undef TANDEM_CHECK
static_assert(SameFunction<const char*(nvrtcResult), decltype(::nvrtcGetErrorString)>::value);

#define TANDEM_CHECK(name, ...) \
  static_assert(SameFunction<cublasStatus_t(__VA_ARGS__), decltype(::name)>::value, #name);
TANDEM_CUBLAS_FUNCTIONS(TANDEM_CHECK)
#undef TANDEM_CHECK
static_assert(SameFunction<const char*(cublasStatus_t), decltype(::cublasGetStatusString)>::value);

#define TANDEM_CHECK(name, ...) \
  static_assert(SameFunction<cublasStatus_t(__VA_ARGS__), decltype(::name)>::value, #name);
TANDEM_CUBLASLT_FUNCTIONS(TANDEM_CHECK)
#undef TANDEM_CHECK
static_assert(SameFunction<size_t(), decltype(::cublasLtGetVersion)>::value);

#define TANDEM_CHECK(name, ...) \
  static_assert(SameFunction<cudnnStatus_t(__VA_ARGS__), decltype(::name)>::value, #name);
TANDEM_CUDNN_FUNCTIONS(TANDEM_CHECK)
#undef TANDEM_CHECK
static_assert(SameFunction<const char*(cudnnStatus_t), decltype(::cudnnGetErrorString)>::value);
static_assert(SameFunction<size_t(), decltype(::cudnnGetVersion)>::value);

#define TANDEM_CHECK(name, ...) \
  static_assert(SameFunction<ncclResult_t(__VA_ARGS__), decltype(::name)>::value, #name);
TANDEM_NCCL_FUNCTIONS(TANDEM_CHECK)
#undef TANDEM_CHECK
static_assert(SameFunction<const char*(ncclResult_t), decltype(::ncclGetErrorString)>::value);

#define TANDEM_CHECK(name) \
  static_assert(static_cast<unsigned>(cuda::name) == static_cast<unsigned>(::name));
TANDEM_CHECK(CUDA_SUCCESS)
TANDEM_CHECK(CUDA_ERROR_INVALID_VALUE)
TANDEM_CHECK(CUDA_ERROR_OUT_OF_MEMORY)
TANDEM_CHECK(CUDA_ERROR_NOT_INITIALIZED)
TANDEM_CHECK(CUDA_ERROR_NO_DEVICE)
TANDEM_CHECK(CUDA_ERROR_INVALID_DEVICE)
TANDEM_CHECK(CUDA_ERROR_INVALID_IMAGE)
TANDEM_CHECK(CUDA_ERROR_INVALID_CONTEXT)
TANDEM_CHECK(CUDA_ERROR_NO_BINARY_FOR_GPU)
TANDEM_CHECK(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
TANDEM_CHECK(CUDA_ERROR_INVALID_PTX)
TANDEM_CHECK(CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
TANDEM_CHECK(CUDA_ERROR_INVALID_HANDLE)
TANDEM_CHECK(CUDA_ERROR_NOT_FOUND)
TANDEM_CHECK(CUDA_ERROR_NOT_READY)
TANDEM_CHECK(CUDA_ERROR_ILLEGAL_ADDRESS)
TANDEM_CHECK(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
TANDEM_CHECK(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
TANDEM_CHECK(CUDA_ERROR_LAUNCH_FAILED)
TANDEM_CHECK(CUDA_ERROR_NOT_SUPPORTED)
TANDEM_CHECK(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
TANDEM_CHECK(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
TANDEM_CHECK(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
TANDEM_CHECK(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
TANDEM_CHECK(CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
TANDEM_CHECK(CUDA_ERROR_CAPTURED_EVENT)
TANDEM_CHECK(CU_STREAM_CAPTURE_MODE_RELAXED)
TANDEM_CHECK(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
TANDEM_CHECK(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)
TANDEM_CHECK(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
TANDEM_CHECK(CU_DEVICE_ATTRIBUTE_INTEGRATED)
TANDEM_CHECK(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)
TANDEM_CHECK(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
TANDEM_CHECK(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
TANDEM_CHECK(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)
TANDEM_CHECK(CU_COMPUTEMODE_PROHIBITED)
TANDEM_CHECK(CU_JIT_ERROR_LOG_BUFFER)
TANDEM_CHECK(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
TANDEM_CHECK(CU_MEM_LOCATION_TYPE_DEVICE)
TANDEM_CHECK(CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
TANDEM_CHECK(CU_STREAM_NON_BLOCKING)
TANDEM_CHECK(CU_EVENT_DEFAULT)
TANDEM_CHECK(CU_EVENT_DISABLE_TIMING)
TANDEM_CHECK(NVRTC_SUCCESS)
TANDEM_CHECK(NVRTC_ERROR_COMPILATION)
TANDEM_CHECK(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED)
TANDEM_CHECK(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)
TANDEM_CHECK(CUBLAS_STATUS_SUCCESS)
TANDEM_CHECK(CUBLAS_STATUS_NOT_INITIALIZED)
TANDEM_CHECK(CUBLAS_STATUS_ALLOC_FAILED)
TANDEM_CHECK(CUBLAS_STATUS_INVALID_VALUE)
TANDEM_CHECK(CUBLAS_STATUS_EXECUTION_FAILED)
TANDEM_CHECK(CUBLAS_STATUS_NOT_SUPPORTED)
TANDEM_CHECK(CUDA_R_32F)
TANDEM_CHECK(CUBLAS_COMPUTE_32F)
TANDEM_CHECK(CUBLAS_COMPUTE_32F_FAST_TF32)
TANDEM_CHECK(CUBLASLT_MATMUL_DESC_TRANSA)
TANDEM_CHECK(CUBLASLT_MATMUL_DESC_TRANSB)
TANDEM_CHECK(CUBLASLT_MATMUL_DESC_EPILOGUE)
TANDEM_CHECK(CUBLASLT_MATMUL_DESC_BIAS_POINTER)
TANDEM_CHECK(CUBLASLT_EPILOGUE_BIAS)
TANDEM_CHECK(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
TANDEM_CHECK(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
TANDEM_CHECK(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
TANDEM_CHECK(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
TANDEM_CHECK(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
TANDEM_CHECK(CUBLAS_OP_N)
TANDEM_CHECK(CUBLAS_OP_T)
TANDEM_CHECK(CUBLAS_DEFAULT_MATH)
TANDEM_CHECK(CUBLAS_TF32_TENSOR_OP_MATH)
TANDEM_CHECK(MAJOR_VERSION)
TANDEM_CHECK(MINOR_VERSION)
TANDEM_CHECK(CUDNN_STATUS_SUCCESS)
TANDEM_CHECK(CUDNN_STATUS_NOT_INITIALIZED)
TANDEM_CHECK(CUDNN_STATUS_BAD_PARAM)
TANDEM_CHECK(CUDNN_STATUS_NOT_SUPPORTED)
TANDEM_CHECK(CUDNN_TENSOR_NHWC)
TANDEM_CHECK(CUDNN_DATA_FLOAT)
TANDEM_CHECK(CUDNN_DATA_DOUBLE)
TANDEM_CHECK(CUDNN_CROSS_CORRELATION)
TANDEM_CHECK(CUDNN_DEFAULT_MATH)
TANDEM_CHECK(CUDNN_FMA_MATH)
TANDEM_CHECK(CUDNN_NON_DETERMINISTIC)
TANDEM_CHECK(CUDNN_DETERMINISTIC)
TANDEM_CHECK(CUDNN_ACTIVATION_RELU)
TANDEM_CHECK(CUDNN_PROPAGATE_NAN)
TANDEM_CHECK(ncclSuccess)
TANDEM_CHECK(ncclUnhandledCudaError)
TANDEM_CHECK(ncclSystemError)
TANDEM_CHECK(ncclInternalError)
TANDEM_CHECK(ncclInvalidArgument)
TANDEM_CHECK(ncclInvalidUsage)
TANDEM_CHECK(ncclRemoteError)
TANDEM_CHECK(ncclInProgress)
TANDEM_CHECK(ncclSum)
TANDEM_CHECK(ncclUint8)
TANDEM_CHECK(ncclInt32)
TANDEM_CHECK(ncclInt64)
TANDEM_CHECK(ncclFloat16)
TANDEM_CHECK(ncclFloat32)
TANDEM_CHECK(ncclFloat64)
TANDEM_CHECK(ncclBfloat16)
#undef TANDEM_CHECK

static_assert(kPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(offsetof(CUmemAccessDesc, flags) == offsetof(::CUmemAccessDesc, flags));
static_assert(offsetof(CUmemLocation, id) == offsetof(::CUmemLocation, id));
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) ==
              offsetof(::cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, state) ==
              offsetof(::cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType) ==
              offsetof(::cudnnConvolutionFwdAlgoPerf_t, mathType));
static_assert(offsetof(cudnnConvolutionBwdDataAlgoPerf_t, memory) ==
              offsetof(::cudnnConvolutionBwdDataAlgoPerf_t, memory));
static_assert(offsetof(cudnnConvolutionBwdFilterAlgoPerf_t, determinism) ==
              offsetof(::cudnnConvolutionBwdFilterAlgoPerf_t, determinism));

TEST(CudaDeclarations, AreThoseOfTheRealHeaders) {
  EXPECT_GE(CUDA_VERSION, 12000) << "older headers are not held against ours";
}

}  // namespace
}  // namespace tandem::devices::cuda

#else

TEST(CudaDeclarations, AreThoseOfTheRealHeaders) {
  GTEST_SKIP() << "CUDA's headers are not installed";
}

#endif
