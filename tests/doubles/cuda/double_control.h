/// What tests can ask of the double of libcuda. The functions are found with dlsym, as the driver's
/// are; tests/harness/cuda.h wraps them.
#pragma once

extern "C" {

/// Changes a setting from now on. Returns 0 where there is none of that name.
///
/// - devices: how many there are; 2, or as TANDEM_CUDA_DOUBLES says, unless set. As with the real
///   driver, CUDA_VISIBLE_DEVICES chooses among them.
/// - capability: 81 is compute capability 8.1, of which no device exists, so compilers make PTX
/// - driver: the version of CUDA that the driver speaks, 13000
/// - memory: the bytes of each device
/// - pools: 1 where memory can be allocated in order with a stream's commands
/// - peers: 0 where devices do not read each other's memory, 1 by PCIe, 2 by NVLink
/// - reverse: 1 where threads and blocks run from the last to the first
/// - seed: of the order in which streams take turns
/// - delay: microseconds by which commands are late at most
/// - cudnn: the version of cuDNN, 91900
/// - nccl: the version of NCCL, 22703
/// - epilogues: 0 where cuDNN does not support a bias and an activation with a convolution, and
///   cuBLASLt no bias with a product
/// - nccl_connects: 0 where NCCL's devices do not find each other, so that it waits
int tandem_double_set(const char* name, long long value);

/// A count of what has happened or is there; -1 where there is none of that name.
///
/// - kernels, instructions: those that were run
/// - products, convolutions: calls of cuBLAS and cuDNN; nondeterministic: those of the latter whose
///   algorithm does not give the same bits each time
/// - epilogues: convolutions with a bias and an activation, and products with a bias
/// - sums, aborts: of NCCL, for each rank
/// - replays: launches of graphs
/// - memory, streams, events, modules, pinned, contexts, handles, communicators, graphs: those that
///   are live
/// - pageable: copies from and to memory that is not pinned
/// - complaints: calls that broke a rule
long long tandem_double_count(const char* name);

/// The n-th call of `function` from now on, the first for 1, returns `error` and does nothing else.
/// "kernel" and "copy" fail when they are run; at "arrival" a rank does not come to a sum of NCCL.
/// The environment variable TANDEM_CUDA_DOUBLE_FAIL says the same: "cuMemAllocAsync:3:2".
void tandem_double_fail(const char* function, int n, int error);
}
