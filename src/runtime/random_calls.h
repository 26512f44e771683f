/// Numbers the runs of random ops and of programs that contain some, so that no two draw the same
/// numbers.
#pragma once

#include <cstdint>

namespace tandem::runtime {

uint64_t next_random_call();

/// Starts again from the first; for tests and for restored training states.
void reset_random_calls(uint64_t next = 0);

}  // namespace tandem::runtime
