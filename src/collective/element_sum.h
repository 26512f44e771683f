/// Sums of elements in memory, in the order of collective/tree.h.
#pragma once

#include <cstdint>
#include <span>

#include "tandem/dtype.h"

namespace tandem::collective {

/// out[i] = the sum of values[r][i] over all r. `out` may be one of the values. Of booleans it is
/// whether any is true.
void sum_elements(DType dtype, std::span<const void* const> values, void* out, int64_t count);

}  // namespace tandem::collective
