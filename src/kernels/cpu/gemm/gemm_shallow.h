/// The product of few terms: k is small and n is not, as in the gradient of a classifier's last
/// hidden layer. It is bound by writing C, so C is written row after row, as the hardware
/// prefetches; products that write it in tiles wait for a line of the cache at every step of a long
/// stride.
#pragma once

#include <memory>

#include "kernels/cpu/gemm/gemm.h"

namespace tandem::kernels::cpu {

/// The most terms for which make_shallow_gemm is meant.
inline constexpr int64_t kShallowTerms = 16;

/// Takes float32 and float64, A as it is, B either way.
std::unique_ptr<Gemm> make_shallow_gemm(const GemmShape& shape);

}  // namespace tandem::kernels::cpu
