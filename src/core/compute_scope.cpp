#include "core/compute_scope.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

// The two functions of the OpenMP runtime that the providers bring along; nothing else of it is
// used.
extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int);

namespace tandem::core {
namespace {

#if defined(__SSE2__)
constexpr unsigned kSubnormalsAreZero = 0x8040;  // Flush results, and read operands as zero.
unsigned float_mode() { return _mm_getcsr(); }
void set_float_mode(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
constexpr uint64_t kSubnormalsAreZero = uint64_t{1} << 24;  // FZ does both.
uint64_t float_mode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void set_float_mode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
constexpr unsigned kSubnormalsAreZero = 0;
unsigned float_mode() { return 0; }
void set_float_mode(uint64_t) {}
#endif

}  // namespace

ComputeScope::ComputeScope()
    : former_threads_(omp_get_max_threads()), former_float_mode_(float_mode()) {
  omp_set_num_threads(1);
  set_float_mode(former_float_mode_ | kSubnormalsAreZero);
}

ComputeScope::~ComputeScope() {
  omp_set_num_threads(former_threads_);
  set_float_mode(former_float_mode_);
}

}  // namespace tandem::core
