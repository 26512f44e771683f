/// Our own product for C of few columns, where the providers fill half of their vectors.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/gemm.h"

namespace tandem::cpu {

inline constexpr int64_t kNarrowColumns = 16;

/// Requires float32 or float64, and sizes from 1, n at most kNarrowColumns.
std::unique_ptr<Gemm> make_narrow_gemm(const GemmShape& shape);

}  // namespace tandem::cpu
