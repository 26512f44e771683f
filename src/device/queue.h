/// Where a device's commands are put, and how those of different devices are ordered. A CPU runs
/// everything at once on the calling thread (its team comes along). A GPU's queue is a stream: the
/// caller's thread issues commands, the device runs them later, in order.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/signal.h"

namespace tandem::devices {

class MemorySpace;
class Timeline;

/// A point in a queue's commands. Empty events are always ready. Cheap to make and to copy; any
/// thread may wait.
class Event {
 public:
  Event() = default;
  Event(std::shared_ptr<Timeline> timeline, uint64_t ticket)
      : timeline_(std::move(timeline)), ticket_(ticket) {}

  bool ready() const;

  /// Waits, then throws what a command up to here has found wrong. Throws DeadlineExceeded naming
  /// the device that all wait for.
  void wait(std::chrono::nanoseconds deadline) const;

  /// The same for who only wants to hear of what nobody has heard of yet.
  enum class Waited { good, failed };  ///< Failed: it was thrown before.
  Waited wait_once(std::chrono::nanoseconds deadline) const;

  const std::shared_ptr<Timeline>& timeline() const { return timeline_; }
  uint64_t ticket() const { return ticket_; }

 private:
  std::shared_ptr<Timeline> timeline_;
  uint64_t ticket_ = 0;
};

/// How far a queue is. Commands are numbered from 1 as they are issued; the number is their ticket.
/// It outlives the queue as long as somebody holds an event.
class Timeline : public std::enable_shared_from_this<Timeline> {
 public:
  explicit Timeline(std::string device) : device_(std::move(device)) {}
  virtual ~Timeline() = default;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  const std::string& device() const { return device_; }

  /// Held while commands are issued, so that those of one piece of work follow each other.
  using Issuing = std::recursive_timed_mutex;
  Issuing& issuing() { return issuing_; }

  /// To be called with issuing() held: the ticket of the command that is being issued.
  uint64_t next_ticket() { return ++issued_; }
  Event last() { return {shared_from_this(), issued_.load()}; }

  /// The commands issued from now on wait for `event`; who misses a deadline then asks it.
  void note_wait(const Event& event);

  /// Keeps `what` until the commands issued so far have run. It is let go of by a thread that
  /// issues or waits, never by the device.
  void hold(std::shared_ptr<const void> what);

  /// As Event::wait, or as Event::wait_once.
  Event::Waited wait(uint64_t ticket, std::chrono::nanoseconds deadline, bool once);

  /// The commands up to this ticket have run.
  virtual uint64_t reached() const = 0;

 protected:
  /// What a command has found wrong with the values it was given, such as a label that is no class.
  struct Fault {
    uint64_t ticket = 0;
    std::exception_ptr error{};
  };

  /// Returns false when `deadline` has passed.
  virtual bool wait_until(uint64_t ticket, core::Clock::time_point deadline) = 0;

  /// The ticket of the first command that found something wrong since the last clear_fault(), or 0.
  virtual uint64_t fault_ticket() const = 0;

  /// What was wrong. No command is running or waiting to run.
  virtual std::exception_ptr clear_fault() = 0;

 private:
  struct Failed {
    uint64_t first;
    uint64_t last;
    std::exception_ptr error;
    std::shared_ptr<std::atomic<bool>> was_thrown;  ///< On any device that it reached.
  };
  struct Wait {
    uint64_t ticket;
    Event event;
  };

  [[noreturn]] void throw_late(std::chrono::nanoseconds deadline);
  std::vector<std::shared_ptr<Timeline>> linked();
  void settle_fault(std::chrono::nanoseconds deadline);
  void clear_own_fault(const std::shared_ptr<std::atomic<bool>>& was_thrown);
  std::string culprit();
  void release_holds();

  const std::string device_;
  Issuing issuing_;
  std::atomic<uint64_t> issued_{0};
  std::mutex mutex_;  // Guards what follows.
  std::vector<std::weak_ptr<Timeline>>
      neighbours_;          // Those that wait for this one, or it for them.
  std::deque<Wait> waits_;  // The waits that are not over yet, in order.
  std::deque<std::pair<uint64_t, std::shared_ptr<const void>>> holds_;
  std::vector<Failed> failed_;  // The last few, for late readers.
};

class Queue {
 public:
  virtual ~Queue() = default;

  /// True where every command has run when the call that issues it returns.
  virtual bool immediate() const = 0;

  /// Runs `work` now, on this thread. The commands that it issues follow each other, with none of
  /// another thread's between them.
  template <class Work>
  void submit(Work&& work) {
    const auto lock = issuing();
    work();
  }

  /// Keeps `what` until the commands issued so far have run. Memory of the queue's own device needs
  /// no hold: it is handed out again only to commands that are issued later. What the host or
  /// another device owns does.
  virtual void hold(std::shared_ptr<const void> what) = 0;

  /// A command: copies between the memory of this queue's device, of another device of the same
  /// backend, and of the host.
  virtual void copy(MemorySpace& to_space, void* to, const MemorySpace& from_space,
                    const void* from, size_t bytes) = 0;

  /// A command: each of the bytes becomes `value`.
  virtual void fill(void* to, uint8_t value, size_t bytes) = 0;

  /// Memory of the host that copies from and to this device are fastest with.
  virtual std::shared_ptr<char[]> staging(size_t bytes);

  /// Ready when everything issued so far has run.
  virtual Event record() = 0;

  /// Commands issued from now on run after `event`. What was found wrong before it is wrong here
  /// too.
  virtual void wait(const Event& event) = 0;

 protected:
  virtual std::unique_lock<Timeline::Issuing> issuing() = 0;
};

/// The queue of a CPU: there is nothing to wait for.
class ImmediateQueue final : public Queue {
 public:
  bool immediate() const override { return true; }
  void hold(std::shared_ptr<const void>) override {}
  void copy(MemorySpace& to_space, void* to, const MemorySpace& from_space, const void* from,
            size_t bytes) override;
  void fill(void* to, uint8_t value, size_t bytes) override;
  Event record() override { return {}; }
  void wait(const Event& event) override;

 protected:
  std::unique_lock<Timeline::Issuing> issuing() override { return {}; }
};

}  // namespace tandem::devices
