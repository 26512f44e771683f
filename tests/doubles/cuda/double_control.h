/// What tests can ask of the double of libcuda. The functions are found with dlsym, as the driver's
/// are; tests/harness/cuda.h wraps them.
#pragma once

extern "C" {

/// Changes a setting from now on. Returns 0 where there is none of that name.
///
/// - devices: how many there are; 2, or as TANDEM_CUDA_DOUBLES says, unless set
/// - capability: 81 is compute capability 8.1, of which no device exists, so compilers make PTX
/// - driver: the version of CUDA that the driver speaks, 13000
/// - memory: the bytes of each device
/// - pools: 1 where memory can be allocated in order with a stream's commands
/// - peers: 0 where devices do not read each other's memory, 1 by PCIe, 2 by NVLink
/// - reverse: 1 where threads and blocks run from the last to the first
/// - seed: of the order in which streams take turns
/// - delay: microseconds by which commands are late at most
/// - cudnn: the version of cuDNN, 91900
int tandem_double_set(const char* name, long long value);

/// A count of what has happened or is there; -1 where there is none of that name.
///
/// - kernels, instructions: those that were run
/// - products, convolutions: calls of cuBLAS and cuDNN; nondeterministic: those of the latter whose
///   algorithm does not give the same bits each time
/// - memory, streams, events, modules, pinned, contexts, handles: those that are live
/// - pageable: copies from and to memory that is not pinned
/// - complaints: calls that broke a rule
long long tandem_double_count(const char* name);

/// The n-th call of `function` from now on, the first for 1, returns `error` and does nothing else.
/// "kernel" and "copy" fail when they are run. The environment variable TANDEM_CUDA_DOUBLE_FAIL
/// says the same: "cuMemAllocAsync:3:2".
void tandem_double_fail(const char* function, int n, int error);
}
