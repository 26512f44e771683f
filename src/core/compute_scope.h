/// What holds for a thread while it computes.
#pragma once

#include <cstdint>

namespace tandem::core {

/// While it lives, OpenMP regions that this thread enters have one thread, so that a provider with
/// a pool of its own (oneDNN) stays on the calling thread; and subnormal numbers count as zero: the
/// moments of weights that no longer change decay into them, and arithmetic on them is many times
/// slower. Then the caller's own settings are back. Team threads hold one for life, the caller of a
/// team while the team runs.
class ComputeScope {
 public:
  ComputeScope();
  ~ComputeScope();
  ComputeScope(const ComputeScope&) = delete;
  ComputeScope& operator=(const ComputeScope&) = delete;

 private:
  int former_threads_;
  uint64_t former_float_mode_;
};

}  // namespace tandem::core
