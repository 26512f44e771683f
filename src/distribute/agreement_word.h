/// What processes agree on with each step, and where it stands in a graph::Agreement. It rides
/// along with the step's last sum, so that nobody waits for it:
///
///   0      1 .. 1+n         1+n .. 1+2n   1+2n .. 1+3n
///   stop   learning rates   waits         terminated
///
/// The first counts the ranks that ask to stop. In the others each rank has a place of its own: the
/// bits of its learning rate, a double; the nanoseconds that it spent in its last exchange; and
/// whether it was sent SIGTERM.
#pragma once

#include <cstddef>

namespace tandem::distribute {

class AgreementWord {
 public:
  explicit constexpr AgreementWord(int size) : size_(static_cast<size_t>(size)) {}

  constexpr size_t numbers() const { return 1 + 3 * size_; }
  constexpr size_t stop() const { return 0; }
  constexpr size_t rate(int rank) const { return 1 + static_cast<size_t>(rank); }
  constexpr size_t wait(int rank) const { return rate(rank) + size_; }
  constexpr size_t terminated(int rank) const { return wait(rank) + size_; }

 private:
  size_t size_;
};

}  // namespace tandem::distribute
