/// What tests of threads share.
#pragma once

#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

namespace tandem::harness {

/// Threads of this process.
inline auto thread_count() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

/// True once `condition()` is, false when it is not after a long time.
template <class Condition>
bool eventually(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace tandem::harness
