/// What memory allows: the measure for work that only moves data.
#pragma once

#include <cstddef>

namespace tandem::bench {

/// Seconds of a = b + 3 c on two threads over arrays of `count` floats.
double triad_seconds(size_t count);

}  // namespace tandem::bench
