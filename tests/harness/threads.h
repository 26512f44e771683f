/// What tests of threads share.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
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

/// A place where threads get stuck until the test is over, or until it lets them go. Cheap to copy,
/// so that a thread that outlives the test can hold it.
class Trap {
 public:
  /// Is called by the thread that gets stuck.
  void enter() const {
    state_->occupied = true;
    while (!state_->open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  /// Is called by the others before they wait for that thread: a busy machine may run them
  /// first.
  void wait_until_occupied() const {
    eventually([&] { return state_->occupied.load(); });
  }

  void open() const { state_->open = true; }

 private:
  struct State {
    std::atomic<bool> occupied{false};
    std::atomic<bool> open{false};
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace tandem::harness
