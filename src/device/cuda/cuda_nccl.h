/// NVIDIA's NCCL, by declarations of our own and found at run time. collective/nccl sums with it.
#pragma once

#include <cstddef>
#include <string>

#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_library.h"

// NOLINTBEGIN(readability-identifier-naming): everything is called as NCCL calls it.
struct ncclComm;

namespace tandem::devices::cuda {

using ncclComm_t = ncclComm*;
enum ncclResult_t : unsigned {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclRedOp_t : unsigned { ncclSum = 0 };
enum ncclDataType_t : unsigned {
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};

/// Every function that returns ncclResult_t: its name, then its parameters.
#define TANDEM_NCCL_FUNCTIONS(FUNCTION)                                                        \
  FUNCTION(ncclGetVersion, int*)                                                               \
  FUNCTION(ncclCommInitAll, ncclComm_t*, int, const int*)                                      \
  FUNCTION(ncclCommDestroy, ncclComm_t)                                                        \
  FUNCTION(ncclCommAbort, ncclComm_t)                                                          \
  FUNCTION(ncclCommGetAsyncError, ncclComm_t, ncclResult_t*)                                   \
  FUNCTION(ncclGroupStart)                                                                     \
  FUNCTION(ncclGroupEnd)                                                                       \
  FUNCTION(ncclAllReduce, const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, \
           CUstream)

struct NcclApi {
#define TANDEM_MEMBER(name, ...) ncclResult_t (*name)(__VA_ARGS__);
  TANDEM_NCCL_FUNCTIONS(TANDEM_MEMBER)
#undef TANDEM_MEMBER
  const char* (*ncclGetErrorString)(ncclResult_t);

  /// Throws the Error that fits `result`, naming `function`; does nothing for ncclSuccess.
  void check(ncclResult_t result, const char* function) const;
};
// NOLINTEND(readability-identifier-naming)

/// The library, or why there is none: what was looked for and what was found.
struct LoadedNccl {
  const NcclApi* api = nullptr;
  std::string found{};  ///< "libnccl.so.2, version 2.27"
  std::string missing{};
};

/// Loads the library when it is first asked for.
const LoadedNccl& load_nccl(const DriverApi& driver);

}  // namespace tandem::devices::cuda
