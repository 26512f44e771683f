/// The functions of NVIDIA's driver (libcuda.so.1) that are used, by declarations of our own and
/// found at run time: no header of CUDA is needed to build, and a machine without the library is a
/// machine without such devices, and nothing else. tests/device/cuda/declarations_test.cpp compares
/// the declarations with the real headers where those are installed.
#pragma once

#include <cstddef>
#include <string>

// NOLINTBEGIN(readability-identifier-naming): everything is called as the driver calls it.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;
struct CUmemPoolHandle_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace tandem::devices::cuda {

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = CUctx_st*;
using CUstream = CUstream_st*;
using CUevent = CUevent_st*;
using CUmodule = CUmod_st*;
using CUfunction = CUfunc_st*;
using CUmemoryPool = CUmemPoolHandle_st*;
using CUgraph = CUgraph_st*;
using CUgraphExec = CUgraphExec_st*;

enum CUresult : unsigned {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
  CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
  CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
  CUDA_ERROR_CAPTURED_EVENT = 907,
};

enum CUdevice_attribute : unsigned {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
};
enum CUdevice_P2PAttribute : unsigned {
  CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 2,
  CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 3,
};
enum CUcomputemode : unsigned { CU_COMPUTEMODE_PROHIBITED = 2 };

enum CUjit_option : unsigned {
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
};

enum CUstreamCaptureMode : unsigned { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };

enum CUmemLocationType : unsigned { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum CUmemAccess_flags : unsigned { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
struct CUmemLocation {
  CUmemLocationType type;
  int id;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};

inline constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
inline constexpr unsigned CU_EVENT_DEFAULT = 0;
inline constexpr unsigned CU_EVENT_DISABLE_TIMING = 2;
inline constexpr unsigned CU_MEMHOSTALLOC_PORTABLE = 1;

/// Every function: its name as the library exports it, then its parameters. Each returns CUresult.
#define TANDEM_CUDA_FUNCTIONS(FUNCTION)                                                            \
  FUNCTION(cuInit, unsigned)                                                                       \
  FUNCTION(cuDriverGetVersion, int*)                                                               \
  FUNCTION(cuGetErrorName, CUresult, const char**)                                                 \
  FUNCTION(cuGetErrorString, CUresult, const char**)                                               \
  FUNCTION(cuDeviceGetCount, int*)                                                                 \
  FUNCTION(cuDeviceGet, CUdevice*, int)                                                            \
  FUNCTION(cuDeviceGetName, char*, int, CUdevice)                                                  \
  FUNCTION(cuDeviceTotalMem_v2, size_t*, CUdevice)                                                 \
  FUNCTION(cuDeviceGetAttribute, int*, CUdevice_attribute, CUdevice)                               \
  FUNCTION(cuDeviceCanAccessPeer, int*, CUdevice, CUdevice)                                        \
  FUNCTION(cuDeviceGetP2PAttribute, int*, CUdevice_P2PAttribute, CUdevice, CUdevice)               \
  FUNCTION(cuDeviceGetDefaultMemPool, CUmemoryPool*, CUdevice)                                     \
  FUNCTION(cuDevicePrimaryCtxRetain, CUcontext*, CUdevice)                                         \
  FUNCTION(cuDevicePrimaryCtxRelease_v2, CUdevice)                                                 \
  FUNCTION(cuCtxPushCurrent_v2, CUcontext)                                                         \
  FUNCTION(cuCtxPopCurrent_v2, CUcontext*)                                                         \
  FUNCTION(cuCtxEnablePeerAccess, CUcontext, unsigned)                                             \
  FUNCTION(cuMemAlloc_v2, CUdeviceptr*, size_t)                                                    \
  FUNCTION(cuMemFree_v2, CUdeviceptr)                                                              \
  FUNCTION(cuMemAllocAsync, CUdeviceptr*, size_t, CUstream)                                        \
  FUNCTION(cuMemFreeAsync, CUdeviceptr, CUstream)                                                  \
  FUNCTION(cuMemPoolSetAccess, CUmemoryPool, const CUmemAccessDesc*, size_t)                       \
  FUNCTION(cuMemHostAlloc, void**, size_t, unsigned)                                               \
  FUNCTION(cuMemFreeHost, void*)                                                                   \
  FUNCTION(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void*, size_t, CUstream)                       \
  FUNCTION(cuMemcpyDtoHAsync_v2, void*, CUdeviceptr, size_t, CUstream)                             \
  FUNCTION(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)                       \
  FUNCTION(cuMemcpyPeerAsync, CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)    \
  FUNCTION(cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream)                          \
  FUNCTION(cuStreamCreate, CUstream*, unsigned)                                                    \
  FUNCTION(cuStreamDestroy_v2, CUstream)                                                           \
  FUNCTION(cuStreamWaitEvent, CUstream, CUevent, unsigned)                                         \
  FUNCTION(cuStreamSynchronize, CUstream)                                                          \
  FUNCTION(cuStreamBeginCapture_v2, CUstream, CUstreamCaptureMode)                                 \
  FUNCTION(cuStreamEndCapture, CUstream, CUgraph*)                                                 \
  FUNCTION(cuGraphInstantiateWithFlags, CUgraphExec*, CUgraph, unsigned long long)                 \
  FUNCTION(cuGraphLaunch, CUgraphExec, CUstream)                                                   \
  FUNCTION(cuGraphExecDestroy, CUgraphExec)                                                        \
  FUNCTION(cuGraphDestroy, CUgraph)                                                                \
  FUNCTION(cuEventCreate, CUevent*, unsigned)                                                      \
  FUNCTION(cuEventDestroy_v2, CUevent)                                                             \
  FUNCTION(cuEventRecord, CUevent, CUstream)                                                       \
  FUNCTION(cuEventQuery, CUevent)                                                                  \
  FUNCTION(cuEventElapsedTime, float*, CUevent, CUevent)                                           \
  FUNCTION(cuModuleLoadDataEx, CUmodule*, const void*, unsigned, CUjit_option*, void**)            \
  FUNCTION(cuModuleUnload, CUmodule)                                                               \
  FUNCTION(cuModuleGetFunction, CUfunction*, CUmodule, const char*)                                \
  FUNCTION(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
           unsigned, CUstream, void**, void**)

/// Each member is the function of its name.
struct DriverApi {
#define TANDEM_MEMBER(name, ...) CUresult (*name)(__VA_ARGS__);
  TANDEM_CUDA_FUNCTIONS(TANDEM_MEMBER)
#undef TANDEM_MEMBER

  /// Where the library was loaded from; empty for wherever the system has it.
  std::string folder;

  /// "CUDA_ERROR_OUT_OF_MEMORY: out of memory (2)"
  std::string name_of(CUresult result) const;

  /// Throws the Error that fits `result`, naming `function`; does nothing for CUDA_SUCCESS.
  void check(CUresult result, const char* function) const;
};
// NOLINTEND(readability-identifier-naming)

/// dlsym: null where the library has no such function.
void* find_symbol(void* library, const char* name);

/// The library, or why there is none: what was looked for and what was found.
struct LoadedApi {
  const DriverApi* api = nullptr;
  std::string missing{};
};

/// Loads the library when it is first asked for, and keeps it as long as the process lives.
const LoadedApi& load_api();

/// The libraries of NVIDIA are loaded from `folder`, and devices are looked for even where the
/// kernel knows of none; as usual for an empty one. The environment variable TANDEM_CUDA_LIBRARIES
/// names it unless set. For tests, between two sets of devices.
void set_library_folder(const std::string& folder);
std::string library_folder();

}  // namespace tandem::devices::cuda
