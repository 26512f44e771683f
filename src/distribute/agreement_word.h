/// What processes agree on with each step, and where it stands in a graph::Agreement. It rides
/// along with the step's last sum, so that nobody waits for it:
///
///   0      1      2 .. 2+n         2+n .. 2+2n   2+2n .. 2+3n   2+3n .. 2+4n   2+4n .. 2+8n
///   stop   save   learning rates   waits         terminated     next rows      times of phases
///
/// The first two count the ranks that ask to stop and to save. In the others each rank has a place
/// of its own: the bits of its learning rate, a double; the nanoseconds that it spent in the sums
/// of its last step; whether it was sent SIGTERM; where its data are its own, one more than the
/// rows that it has for the next step, or 0 at their end; and the nanoseconds that each phase
/// before those sums took, all ranks' first phases, then all ranks' second ones.
#pragma once

#include <cstddef>

namespace tandem::distribute {

/// What a process does from the end of one step's sums to the beginning of the next one's, in this
/// order.
enum class StepPhase { update, callbacks, data, compute };
inline constexpr size_t kStepPhases = 4;

class AgreementWord {
 public:
  explicit constexpr AgreementWord(int size) : size_(static_cast<size_t>(size)) {}

  constexpr size_t numbers() const { return 2 + (4 + kStepPhases) * size_; }
  constexpr size_t stop() const { return 0; }
  constexpr size_t save() const { return 1; }
  constexpr size_t rate(int rank) const { return 2 + static_cast<size_t>(rank); }
  constexpr size_t wait(int rank) const { return rate(rank) + size_; }
  constexpr size_t terminated(int rank) const { return wait(rank) + size_; }
  constexpr size_t next_rows(int rank) const { return terminated(rank) + size_; }
  constexpr size_t phase(StepPhase phase, int rank) const {
    return next_rows(rank) + (1 + static_cast<size_t>(phase)) * size_;
  }

 private:
  size_t size_;
};

}  // namespace tandem::distribute
