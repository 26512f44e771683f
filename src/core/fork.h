/// A process that was forked while the library was in use has one thread: the others, and the locks
/// they held, are the parent's. What a child would wait for never comes, so it is told at once.
#pragma once

#include <atomic>

namespace tandem::core {

/// Is called before memory for a tensor is taken: from the first time on children of fork() are
/// refused. A child that calls exec is another program, which knows nothing of this.
void watch_forks();

namespace internal {
extern std::atomic<bool> is_forked_child;
[[noreturn]] void throw_forked();
}  // namespace internal

/// Throws FailedPrecondition in a child of fork().
inline void check_not_forked() {
  if (internal::is_forked_child.load(std::memory_order_relaxed)) internal::throw_forked();
}

}  // namespace tandem::core
