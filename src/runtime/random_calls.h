/// Numbers the calls of random ops, eager ones and those in programs, so that no two draw the same
/// numbers, and keeps the global seed. A step draws the same numbers op by op as in a program:
/// there its calls are numbered in the order of the trace. What layers draw for their first weights
/// is numbered apart, since a program's trace makes them before its first run draws
/// anything.
#pragma once

#include <cstdint>
#include <optional>

#include "op/kernel.h"

namespace tandem::runtime {

/// Takes the next `calls` numbers for what this thread draws for; none are needed where nothing
/// draws.
op::RandomRun next_random_run(uint64_t calls = 1);

/// The same for a program that several processes run together. Its calls are counted here, too, but
/// have numbers of their own: what one process draws besides, for a picture of its own, moves
/// nothing that they have in common.
op::RandomRun next_shared_random_run(uint64_t calls);

/// The run that took these numbers does not count. They are taken again by the next run, unless
/// somebody has taken further ones since, or has set a seed.
void take_back(const op::RandomRun& run, uint64_t calls);
void take_back_shared(const op::RandomRun& run, uint64_t calls);

/// What random numbers are drawn for. Each purpose numbers its calls by itself.
enum class RandomPurpose : uint32_t { steps, initial_values };

/// While it lives, this thread draws for this purpose. Without one it draws for steps.
class RandomPurposeScope {
 public:
  explicit RandomPurposeScope(RandomPurpose purpose);
  ~RandomPurposeScope();
  RandomPurposeScope(const RandomPurposeScope&) = delete;
  RandomPurposeScope& operator=(const RandomPurposeScope&) = delete;

 private:
  const RandomPurpose former_;
};

/// Starts again from the first; for tests.
void reset_random_calls(uint64_t next = 0);

/// All that random numbers to come depend on, beside the programs that draw them.
struct RandomState {
  uint64_t calls = 0;  ///< The calls for RandomPurpose::steps.
  std::optional<uint64_t> seed;
  uint64_t process_seed = 0;   ///< In the place of a global seed where none was set.
  uint64_t initial_calls = 0;  ///< The calls for RandomPurpose::initial_values.
  uint64_t shared_calls = 0;   ///< The next call of a program that several processes run.

  bool operator==(const RandomState&) const = default;
};

RandomState random_state();
void set_random_state(const RandomState& state);

/// As in a process that has never set a global seed; for tests.
void forget_global_seed();

}  // namespace tandem::runtime
