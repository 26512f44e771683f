/// Convolutions by NVIDIA's cuDNN, by declarations of our own and found at run time. They are its
/// calls for single convolutions, which every version since the first has.
#pragma once

#include <cstddef>
#include <string>

#include "device/cuda/cuda_context.h"
#include "device/cuda/cuda_library.h"
#include "device/gpu/vendor_library.h"

// NOLINTBEGIN(readability-identifier-naming): everything is called as cuDNN calls it.
struct cudnnContext;
struct cudnnTensorStruct;
struct cudnnFilterStruct;
struct cudnnConvolutionStruct;
struct cudnnActivationStruct;

namespace tandem::devices::cuda {

using cudnnHandle_t = cudnnContext*;
using cudnnTensorDescriptor_t = cudnnTensorStruct*;
using cudnnFilterDescriptor_t = cudnnFilterStruct*;
using cudnnConvolutionDescriptor_t = cudnnConvolutionStruct*;
using cudnnActivationDescriptor_t = cudnnActivationStruct*;
enum cudnnStatus_t : unsigned {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
};
enum cudnnTensorFormat_t : unsigned { CUDNN_TENSOR_NHWC = 1 };
enum cudnnDataType_t : unsigned { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_DOUBLE = 1 };
enum cudnnConvolutionMode_t : unsigned { CUDNN_CROSS_CORRELATION = 1 };
enum cudnnActivationMode_t : unsigned { CUDNN_ACTIVATION_RELU = 1 };
enum cudnnNanPropagation_t : unsigned { CUDNN_PROPAGATE_NAN = 1 };
enum cudnnMathType_t : unsigned { CUDNN_DEFAULT_MATH = 0, CUDNN_FMA_MATH = 3 };
enum cudnnDeterminism_t : unsigned { CUDNN_NON_DETERMINISTIC = 0, CUDNN_DETERMINISTIC = 1 };
enum cudnnConvolutionFwdAlgo_t : unsigned {};
enum cudnnConvolutionBwdDataAlgo_t : unsigned {};
enum cudnnConvolutionBwdFilterAlgo_t : unsigned {};

/// An algorithm and what is known of it. cuDNN has a type of its own for each kind of algorithm.
template <class Algorithm>
struct cudnnAlgoPerf_t {
  Algorithm algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
};
using cudnnConvolutionFwdAlgoPerf_t = cudnnAlgoPerf_t<cudnnConvolutionFwdAlgo_t>;
using cudnnConvolutionBwdDataAlgoPerf_t = cudnnAlgoPerf_t<cudnnConvolutionBwdDataAlgo_t>;
using cudnnConvolutionBwdFilterAlgoPerf_t = cudnnAlgoPerf_t<cudnnConvolutionBwdFilterAlgo_t>;

/// Every function that returns cudnnStatus_t: its name, then its parameters.
#define TANDEM_CUDNN_FUNCTIONS(FUNCTION)                                                           \
  FUNCTION(cudnnCreate, cudnnHandle_t*)                                                            \
  FUNCTION(cudnnDestroy, cudnnHandle_t)                                                            \
  FUNCTION(cudnnSetStream, cudnnHandle_t, CUstream)                                                \
  FUNCTION(cudnnCreateTensorDescriptor, cudnnTensorDescriptor_t*)                                  \
  FUNCTION(cudnnDestroyTensorDescriptor, cudnnTensorDescriptor_t)                                  \
  FUNCTION(cudnnSetTensor4dDescriptor, cudnnTensorDescriptor_t, cudnnTensorFormat_t,               \
           cudnnDataType_t, int, int, int, int)                                                    \
  FUNCTION(cudnnCreateFilterDescriptor, cudnnFilterDescriptor_t*)                                  \
  FUNCTION(cudnnDestroyFilterDescriptor, cudnnFilterDescriptor_t)                                  \
  FUNCTION(cudnnSetFilter4dDescriptor, cudnnFilterDescriptor_t, cudnnDataType_t,                   \
           cudnnTensorFormat_t, int, int, int, int)                                                \
  FUNCTION(cudnnCreateConvolutionDescriptor, cudnnConvolutionDescriptor_t*)                        \
  FUNCTION(cudnnDestroyConvolutionDescriptor, cudnnConvolutionDescriptor_t)                        \
  FUNCTION(cudnnSetConvolution2dDescriptor, cudnnConvolutionDescriptor_t, int, int, int, int, int, \
           int, cudnnConvolutionMode_t, cudnnDataType_t)                                           \
  FUNCTION(cudnnSetConvolutionGroupCount, cudnnConvolutionDescriptor_t, int)                       \
  FUNCTION(cudnnSetConvolutionMathType, cudnnConvolutionDescriptor_t, cudnnMathType_t)             \
  FUNCTION(cudnnGetConvolutionForwardAlgorithm_v7, cudnnHandle_t, cudnnTensorDescriptor_t,         \
           cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, int,    \
           int*, cudnnConvolutionFwdAlgoPerf_t*)                                                   \
  FUNCTION(cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnHandle_t, cudnnFilterDescriptor_t,    \
           cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, int,    \
           int*, cudnnConvolutionBwdDataAlgoPerf_t*)                                               \
  FUNCTION(cudnnGetConvolutionBackwardFilterAlgorithm_v7, cudnnHandle_t, cudnnTensorDescriptor_t,  \
           cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t, int,    \
           int*, cudnnConvolutionBwdFilterAlgoPerf_t*)                                             \
  FUNCTION(cudnnConvolutionForward, cudnnHandle_t, const void*, cudnnTensorDescriptor_t,           \
           const void*, cudnnFilterDescriptor_t, const void*, cudnnConvolutionDescriptor_t,        \
           cudnnConvolutionFwdAlgo_t, void*, size_t, const void*, cudnnTensorDescriptor_t, void*)  \
  FUNCTION(cudnnCreateActivationDescriptor, cudnnActivationDescriptor_t*)                          \
  FUNCTION(cudnnDestroyActivationDescriptor, cudnnActivationDescriptor_t)                          \
  FUNCTION(cudnnSetActivationDescriptor, cudnnActivationDescriptor_t, cudnnActivationMode_t,       \
           cudnnNanPropagation_t, double)                                                          \
  FUNCTION(cudnnConvolutionBiasActivationForward, cudnnHandle_t, const void*,                      \
           cudnnTensorDescriptor_t, const void*, cudnnFilterDescriptor_t, const void*,             \
           cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t, void*, size_t, const void*,    \
           cudnnTensorDescriptor_t, const void*, cudnnTensorDescriptor_t, const void*,             \
           cudnnActivationDescriptor_t, cudnnTensorDescriptor_t, void*)                            \
  FUNCTION(cudnnConvolutionBackwardData, cudnnHandle_t, const void*, cudnnFilterDescriptor_t,      \
           const void*, cudnnTensorDescriptor_t, const void*, cudnnConvolutionDescriptor_t,        \
           cudnnConvolutionBwdDataAlgo_t, void*, size_t, const void*, cudnnTensorDescriptor_t,     \
           void*)                                                                                  \
  FUNCTION(cudnnConvolutionBackwardFilter, cudnnHandle_t, const void*, cudnnTensorDescriptor_t,    \
           const void*, cudnnTensorDescriptor_t, const void*, cudnnConvolutionDescriptor_t,        \
           cudnnConvolutionBwdFilterAlgo_t, void*, size_t, const void*, cudnnFilterDescriptor_t,   \
           void*)

struct CudnnApi {
#define TANDEM_MEMBER(name, ...) cudnnStatus_t (*name)(__VA_ARGS__);
  TANDEM_CUDNN_FUNCTIONS(TANDEM_MEMBER)
#undef TANDEM_MEMBER
  const char* (*cudnnGetErrorString)(cudnnStatus_t);
  size_t (*cudnnGetVersion)();

  /// Throws the Error that fits `status`, naming `function`.
  void check(cudnnStatus_t status, const char* function) const;
};
// NOLINTEND(readability-identifier-naming)

/// The library, or why there is none: what was looked for and what was found.
struct LoadedCudnn {
  const CudnnApi* api = nullptr;
  std::string found{};  ///< "libcudnn.so.9, version 9.19"
  std::string missing{};
};

/// Loads the library when it is first asked for.
const LoadedCudnn& load_cudnn(const DriverApi& driver);

/// Convolutions on the device of `context`.
std::shared_ptr<gpu::ConvolutionLibrary> cudnn_convolutions(const CudnnApi& api,
                                                            std::shared_ptr<CudaContext> context);

}  // namespace tandem::devices::cuda
