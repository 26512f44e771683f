/// How much the clocks of processes differ.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem::distribute {

/// When a process entered and left an exchange, by its own clock, in nanoseconds.
struct ExchangeTimes {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Finds by how much another clock is ahead of the first one, from exchanges that both took part
/// in: `first` and `other` have their times in the same order. Nobody leaves an exchange before the
/// other has entered it, so each exchange says how much it can be at least and at most; this is the
/// middle of what all of them allow.
int64_t clock_offset(const std::vector<ExchangeTimes>& first,
                     const std::vector<ExchangeTimes>& other);

}  // namespace tandem::distribute
