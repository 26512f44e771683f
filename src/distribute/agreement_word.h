/// What processes agree on with each step, and where it stands in a graph::Agreement. It rides
/// along with the step's last sum, so that nobody waits for it:
///
///   0      1      2 .. 2+n         2+n .. 2+2n   2+2n .. 2+3n   2+3n .. 2+4n   2+4n .. 2+5n
///   stop   save   learning rates   waits         terminated     next rows      inputs
///
/// The first two count the ranks that ask to stop and to save. In the others each rank has a place
/// of its own: the bits of its learning rate, a double; the nanoseconds that it spent in its last
/// exchange; whether it was sent SIGTERM; where its data are its own, one more than the rows that
/// it has for the next step, or 0 at their end; and the nanoseconds that it waited for the data of
/// the step whose exchange that was.
#pragma once

#include <cstddef>

namespace tandem::distribute {

class AgreementWord {
 public:
  explicit constexpr AgreementWord(int size) : size_(static_cast<size_t>(size)) {}

  constexpr size_t numbers() const { return 2 + 5 * size_; }
  constexpr size_t stop() const { return 0; }
  constexpr size_t save() const { return 1; }
  constexpr size_t rate(int rank) const { return 2 + static_cast<size_t>(rank); }
  constexpr size_t wait(int rank) const { return rate(rank) + size_; }
  constexpr size_t terminated(int rank) const { return wait(rank) + size_; }
  constexpr size_t next_rows(int rank) const { return terminated(rank) + size_; }
  constexpr size_t input(int rank) const { return next_rows(rank) + size_; }

 private:
  size_t size_;
};

}  // namespace tandem::distribute
