/// What reduce and its counterpart broadcast_to have in common: how a sum is scaled.
#pragma once

#include <cstdint>

#include "op/kernel.h"

namespace tandem::ops {

/// Attribute "scale" of reduce and broadcast_to.
enum class Scale : int64_t {
  none = 0,
  mean = 1,         ///< By the number of elements that meet in one.
  global_mean = 2,  ///< By attribute "divisor", over all replicas.
};

/// The factor for Scale::global_mean. A negative divisor is a multiple of the batch's rows.
inline double global_factor(int64_t divisor, const op::StepScalars& step) {
  const auto count = divisor < 0
                         ? static_cast<double>(-divisor) * static_cast<double>(step.global_rows)
                         : static_cast<double>(divisor) * step.replicas;
  return 1.0 / count;
}

}  // namespace tandem::ops
