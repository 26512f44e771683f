/// The two 16-bit floats under the names that kernels use.
#pragma once

#include "core/half.h"

namespace tandem::kernels::cpu {

using core::BFloat16;
using core::Float16;
using core::to_bfloat16;
using core::to_float;
using core::to_float16;

}  // namespace tandem::kernels::cpu
