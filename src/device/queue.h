/// Where a device's work is put, and how works on different queues are ordered. A CPU runs work at
/// once on the calling thread (its team comes along); a GPU's queue is a stream.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "core/signal.h"

namespace tandem::devices {

/// What a queue's work threw. Every later event of the queue carries it until somebody has seen it:
/// the first event after an error may be one that nobody waits for.
struct QueueError {
  std::exception_ptr error;
  std::atomic<bool> seen{false};
};

/// A point in a queue's work. Empty events are always ready. Cheap to copy; any thread may wait.
class Event {
 public:
  Event() = default;

  /// An event of the queue of `owner`, whom a missed deadline is blamed on.
  static Event pending(std::string owner);

  bool ready() const;

  /// Called once, by the queue. Everything before it is then visible to those who wait.
  void complete(std::shared_ptr<QueueError> error = nullptr) const;

  /// Waits, then rethrows what the queue's work threw. Throws DeadlineExceeded naming the owner.
  void wait(std::chrono::nanoseconds deadline) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

class Queue {
 public:
  virtual ~Queue() = default;

  /// True when submit() runs the work before it returns.
  virtual bool immediate() const = 0;

  /// Puts work behind all that was submitted before.
  virtual void submit(std::function<void()> work) = 0;

  /// An event that is ready when everything submitted so far has run.
  virtual Event record() = 0;

  /// Work submitted from now on runs after `event`.
  virtual void wait(Event event) = 0;
};

/// The queue of a CPU: there is nothing to wait for.
class ImmediateQueue final : public Queue {
 public:
  bool immediate() const override { return true; }
  void submit(std::function<void()> work) override { work(); }
  Event record() override { return {}; }
  void wait(Event event) override;
};

}  // namespace tandem::devices
