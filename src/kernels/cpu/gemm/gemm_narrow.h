/// Our own product for C of few columns, where the providers leave half of their lanes empty: 10
/// columns are 1.25 vectors of AVX2. The lanes lie along whatever is long instead, in one of three
/// formulations, each in a header of its own.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/gemm/gemm.h"

namespace tandem::kernels::cpu {

inline constexpr int64_t kNarrowColumns = 16;

/// Requires float32 or float64, and sizes from 1, n at most kNarrowColumns.
std::unique_ptr<Gemm> make_narrow_gemm(const GemmShape& shape);

/// The parts into which the formulations cut a product: panels of at most 6, as even as can be.
/// 10 columns are 5 + 5.
inline constexpr int kMaxPanel = 6;

constexpr int panel_width(int64_t columns) {
  const int64_t panels = (columns + kMaxPanel - 1) / kMaxPanel;
  return static_cast<int>((columns + panels - 1) / panels);
}

/// A panel of w columns goes with kAcross[w] rows, or vectors of rows: enough sums to hide the
/// latency of a multiply-add, and few enough for 16 registers to hold them beside their operands.
inline constexpr int kAcross[kMaxPanel + 1] = {0, 8, 4, 3, 3, 2, 2};

/// Runs `Kernel<width>`, in which the width is a constant.
template <template <int> class Kernel, class Part>
void run_with_width(int64_t width, const Part& part) {
  using Run = void (*)(const Part&);
  static constexpr Run kRuns[] = {nullptr,        Kernel<1>::run, Kernel<2>::run, Kernel<3>::run,
                                  Kernel<4>::run, Kernel<5>::run, Kernel<6>::run};
  kRuns[width](part);
}

}  // namespace tandem::kernels::cpu
