/// A stretch of instructions that a device with a queue is given in every run: at first one by one,
/// then, where the addresses are those of an earlier run, as what was captured there.
///
///   run 1   one by one: kernels are compiled, libraries opened
///   run 2   captured, and replayed once
///   run 3.. replayed
#pragma once

#include <span>
#include <vector>

#include "device/capture.h"

namespace tandem::graph {

/// What the commands of a stretch depend on besides the program and its plan.
struct StretchKey {
  std::span<void* const> addresses{};  ///< The addresses of all values.
  const void* arena = nullptr;
  const void* step = nullptr;
  bool is_rounded = false;  ///< TensorFloat-32 is allowed.
};

class CapturedStretch {
 public:
  /// Issues the commands of `work`. The caller holds the queue, as in Queue::submit.
  template <class Work>
  void issue(devices::Queue& queue, const StretchKey& key, const Work& work) {
    if (is_given_up_ || !has_run_) {
      has_run_ = true;
      return work();
    }
    const devices::CapturedWork* captured = find(key);
    if (captured == nullptr) captured = add(key, devices::capture(queue, work));
    captured == nullptr ? work() : devices::replay(queue, *captured);
  }

  /// How often the commands were captured, and how often a run found them captured already.
  size_t captures() const { return captures_; }
  size_t replays() const { return replays_; }

 private:
  struct Captured {
    std::vector<void*> addresses;
    const void* arena;
    const void* step;
    bool is_rounded;
    devices::CapturedWork work;
  };

  const devices::CapturedWork* find(const StretchKey& key);
  const devices::CapturedWork* add(const StretchKey& key, devices::CapturedWork work);

  bool has_run_ = false;
  bool is_given_up_ = false;  // It cannot be captured, or is captured in vain.
  size_t captures_ = 0;
  size_t replays_ = 0;
  std::vector<Captured> known_;
};

}  // namespace tandem::graph
