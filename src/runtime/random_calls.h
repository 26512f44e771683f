/// Numbers the runs of random ops and of programs that contain some, so that no two draw the same
/// numbers, and keeps the global seed.
#pragma once

#include <cstdint>
#include <optional>

#include "op/kernel.h"

namespace tandem::runtime {

op::RandomRun next_random_run();

/// Starts again from the first; for tests.
void reset_random_calls(uint64_t next = 0);

/// All that random numbers to come depend on, beside the programs that draw them.
struct RandomState {
  uint64_t calls = 0;
  std::optional<uint64_t> seed;
  uint64_t process_seed = 0;  ///< In the place of a global seed where none was set.

  bool operator==(const RandomState&) const = default;
};

RandomState random_state();
void set_random_state(const RandomState& state);

/// As in a process that has never set a global seed; for tests.
void forget_global_seed();

}  // namespace tandem::runtime
