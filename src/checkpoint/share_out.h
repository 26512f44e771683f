/// Work that several threads take turns at.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::checkpoint {

/// Calls `work` with each number below `count`, in no order, on up to `threads` threads; few
/// numbers are left to the caller's. Throws the first error.
template <class Work>
void share_out(size_t count, size_t threads, const Work& work) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto take_turns = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    constexpr size_t kFewestPerThread = 4;
    std::vector<std::jthread> others;
    for (size_t i = 1; i < threads && i < count / kFewestPerThread; ++i) {
      others.emplace_back(take_turns);
    }
    take_turns();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tandem::checkpoint
