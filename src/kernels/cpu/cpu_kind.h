/// The kinds of CPU for which it was measured who computes what fastest.
#pragma once

namespace tandem::kernels::cpu {

enum class CpuKind {
  avx2,    ///< Measured on Zen 3.
  avx512,  ///< Measured on an Emerald Rapids Xeon.
  other,   ///< Reasoned.
};

/// The kind of the machine that this runs on.
CpuKind this_cpu();

}  // namespace tandem::kernels::cpu
