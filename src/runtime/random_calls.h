/// Numbers the runs of random ops and of programs that contain some, so that no two draw the same
/// numbers, and keeps the global seed.
#pragma once

#include <cstdint>

#include "op/kernel.h"

namespace tandem::runtime {

op::RandomRun next_random_run();

/// Starts again from the first; for tests and for restored training states.
void reset_random_calls(uint64_t next = 0);

/// As in a process that has never set a global seed; for tests.
void forget_global_seed();

}  // namespace tandem::runtime
