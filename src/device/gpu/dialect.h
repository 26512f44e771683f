/// The language that kernels are written in: C with a few words for what OpenCL C and CUDA C call
/// differently, and loops that have a serial and a parallel form.
///
/// | word | meaning |
/// |---|---|
/// | KERNEL NAME(..) | a kernel; NAME is given by the compiler |
/// | FN | a function for kernels |
/// | MEMORY(k) | parameter k is memory: an allocation and an offset |
/// | AT(T, k) | it as a pointer to T |
/// | EACH(i, n) | a loop in which the items share the elements 0 to n-1 |
/// | INDEPENDENT | before a loop: what one turn writes no other turn reads, so turns may be vectors
/// | | ROWS(r, n) | a loop in which groups of items share n rows; within it | | ALONG(c, l, n) |
/// the items of a group share n columns; l is the lane that a column belongs to | | LANEWISE(V, v,
/// value, c, l, n, ..) | ALONG with V v = value: a CPU computes it for all lanes and then does what
/// follows, so that these are vectors even where memory overlaps | | LANES_OF(T, v, x) | T
/// v[lanes], each x: what a lane has gathered | | JOIN(T, v, OP) | v[0] = OP of all lanes, for all
/// items; SCRATCH(T) before ROWS makes room | | ONCE | what follows is done by one item of a group
/// | | report_fault(..) | leaves a bad value: see device/gpu/fault.h |
///
/// i64, u64, u32, i32, i16, u16, i8 and u8 are whole numbers of their sizes.
#pragma once

#include <string>
#include <string_view>

#include "device/gpu/driver.h"

namespace tandem::devices::gpu {

/// What a program in `dialect` ("opencl", "cuda") begins with.
std::string prelude(std::string_view dialect, KernelForm form);

/// The number of items in a group of the parallel form.
inline constexpr int kGroupSize = 256;

}  // namespace tandem::devices::gpu
