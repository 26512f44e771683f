// The beginning of every program: first the words of OpenCL C or CUDA C, then what is the same in
// both.
#include "device/gpu/dialect.h"

#include <fmt/format.h>

namespace tandem::devices::gpu {
namespace {

constexpr std::string_view kOpenCl = R"(
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
typedef ulong u64;
typedef long i64;
typedef uint u32;
typedef int i32;
typedef short i16;
typedef char i8;
typedef uchar u8;
typedef ushort u16;
#define KERNEL __kernel void
#define FN static inline __attribute__((overloadable))
#define GLOBAL __global
#define LOCAL __local
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define LID() ((int)get_local_id(0))
#define LSIZE() ((int)get_local_size(0))
#define GROUP() ((i64)get_group_id(0))
#define GROUPS() ((i64)get_num_groups(0))
#define GID() ((i64)get_global_id(0))
#define GSIZE() ((i64)get_global_size(0))
#define MEMORY(k) __global char* p##k, u64 o##k
#define AT(T, k) ((__global T*)(p##k + o##k))
#define COMPARE_AND_SET(p, old, value) atomic_cmpxchg((volatile __global u32*)(p), old, value)
#define ATOMIC_ADD(p, value) atomic_add((volatile __global i32*)(p), value)
#define BITS_OF_FLOAT(x) as_uint(x)
#define FLOAT_OF_BITS(x) as_float(x)
#define BITS_OF_DOUBLE(x) as_ulong(x)
#define DOUBLE_OF_BITS(x) as_double(x)
#define MULTIPLY_HIGH(a, b) mul_hi(a, b)
)";

constexpr std::string_view kCuda = R"(
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;
typedef int i32;
typedef short i16;
typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned long long ulong;
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#define KERNEL extern "C" __global__ void
#define FN static __device__ __forceinline__
#define GLOBAL
#define LOCAL __shared__
#define BARRIER() __syncthreads()
#define LID() ((int)threadIdx.x)
#define LSIZE() ((int)blockDim.x)
#define GROUP() ((i64)blockIdx.x)
#define GROUPS() ((i64)gridDim.x)
#define GID() ((i64)blockIdx.x * blockDim.x + threadIdx.x)
#define GSIZE() ((i64)gridDim.x * blockDim.x)
#define MEMORY(k) char* p##k, u64 o##k
#define AT(T, k) ((T*)(p##k + o##k))
#define COMPARE_AND_SET(p, old, value) atomicCAS((u32*)(p), old, value)
#define ATOMIC_ADD(p, value) atomicAdd((i32*)(p), value)
#define BITS_OF_FLOAT(x) __float_as_uint(x)
#define FLOAT_OF_BITS(x) __uint_as_float(x)
#define BITS_OF_DOUBLE(x) ((u64)__double_as_longlong(x))
#define DOUBLE_OF_BITS(x) __longlong_as_double((i64)(x))
#define MULTIPLY_HIGH(a, b) __umulhi(a, b)
)";

constexpr std::string_view kSerial = R"text(
#define SERIAL 1
#define EACH(i, n) for (i64 i = (n) * GID() / GSIZE(), end_##i = (n) * (GID() + 1) / GSIZE(); i < end_##i; ++i)
#define ROWS(r, n) EACH(r, n)
#define LANES 8
#define SCRATCH(T)
#define ALONG(c, l, n) for (i64 c##_ = 0; c##_ < (n); c##_ += LANES) for (int l = 0; l < LANES; ++l) for (i64 c = c##_ + l; c < (n); c = (n))
#define LANEWISE(V, v, value, c, l, n, ...) { i64 c##_ = 0; \
  for (; c##_ + LANES <= (n); c##_ += LANES) { V v##_[LANES]; \
    for (int l = 0; l < LANES; ++l) { const i64 c = c##_ + l; v##_[l] = (value); } \
    for (int l = 0; l < LANES; ++l) { const i64 c = c##_ + l; const V v = v##_[l]; __VA_ARGS__ } } \
  for (int l = 0; c##_ + l < (n); ++l) { const i64 c = c##_ + l; const V v = (value); __VA_ARGS__ } }
#define JOIN(T, v, OP) { for (int l_ = 1; l_ < LANES; ++l_) v[0] = OP(v[0], v[l_]); }
#define ONCE
#define SYNC()
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
)text";

constexpr std::string_view kParallel = R"(
#define EACH(i, n) for (i64 i = GID(); i < (n); i += GSIZE())
#define ROWS(r, n) for (i64 r = GROUP(); r < (n); r += GROUPS())
#define LANES 1
#define SCRATCH(T) LOCAL T scratch_[GROUP_SIZE];
#define ALONG(c, l, n) for (int l = 0; l < 1; ++l) for (i64 c = LID(); c < (n); c += LSIZE())
#define LANEWISE(V, v, value, c, l, n, ...) { const int l = 0; for (i64 c = LID(); c < (n); c += LSIZE()) { const V v = (value); __VA_ARGS__ } }
#define JOIN(T, v, OP) { BARRIER(); scratch_[LID()] = v[0]; for (int w_ = GROUP_SIZE / 2; w_ > 0; w_ /= 2) { BARRIER(); if (LID() < w_) scratch_[LID()] = OP(scratch_[LID()], scratch_[LID() + w_]); } BARRIER(); v[0] = scratch_[0]; }
#define ONCE if (LID() == 0)
#define SYNC() BARRIER()
#define INDEPENDENT
)";

constexpr std::string_view kCommon = R"(
#define LANES_OF(T, v, x) T v[LANES]; for (int l_ = 0; l_ < LANES; ++l_) v[l_] = (x);
#define SUM_OF(a, b) ((a) + (b))
#define MAX_OF(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define MIN_OF(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
/* The first bad value that a kernel finds: report, ticket, place, value. */
FN void report_fault(GLOBAL u32* fault, i64 report, i64 ticket, i64 place, i64 value) {
  if (COMPARE_AND_SET(fault, 0u, (u32)report) != 0u) return;
  ((GLOBAL i64*)fault)[1] = ticket;
  ((GLOBAL i64*)fault)[2] = place;
  ((GLOBAL i64*)fault)[3] = value;
}
)";

}  // namespace

std::string prelude(std::string_view dialect, KernelForm form) {
  return fmt::format("{}#define GROUP_SIZE {}\n{}{}", dialect == "cuda" ? kCuda : kOpenCl,
                     kGroupSize, form == KernelForm::serial ? kSerial : kParallel, kCommon);
}

}  // namespace tandem::devices::gpu
