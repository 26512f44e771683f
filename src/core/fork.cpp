#include "core/fork.h"

#include <pthread.h>

#include "tandem/error.h"

namespace tandem::core {

namespace internal {

std::atomic<bool> is_forked_child{false};

void throw_forked() {
  throw FailedPrecondition(
      "this process was forked after Tandem had computed in its parent, whose threads it does not "
      "have; fork before the first tensor is made, or start another program (exec, posix_spawn, "
      "Python's 'spawn')");
}

}  // namespace internal

void watch_forks() {
  static const bool watched = [] {
    pthread_atfork(nullptr, nullptr, [] { internal::is_forked_child = true; });
    return true;
  }();
  static_cast<void>(watched);
}

}  // namespace tandem::core
