/// Where a device's commands are put, and how those of different devices are ordered. A CPU runs
/// everything at once on the calling thread (its team comes along). A GPU's queue is a stream: the
/// caller's thread issues commands, the device runs them later, in order.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "core/fifo.h"
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

  /// True once somebody has been told that a command up to here went wrong: what was computed there
  /// is bad for good.
  bool has_failed() const;

  const std::shared_ptr<Timeline>& timeline() const { return timeline_; }
  uint64_t ticket() const { return ticket_; }

 private:
  std::shared_ptr<Timeline> timeline_;
  uint64_t ticket_ = 0;
};

/// What takes back commands that went wrong: a callable with a few plain values, kept without an
/// allocation.
class UndoFn {
 public:
  UndoFn() = default;
  template <class F>
  requires(std::is_trivially_copyable_v<F> && sizeof(F) <= 48)
      UndoFn(const F& f)  // NOLINT: a callable becomes one as it becomes a std::function
      : call_([](const std::byte* data) { (*reinterpret_cast<const F*>(data))(); }) {
    std::memcpy(data_.data(), &f, sizeof f);
  }
  void operator()() const { call_(data_.data()); }

 private:
  void (*call_)(const std::byte*) = nullptr;
  alignas(std::max_align_t) std::array<std::byte, 48> data_{};
};

/// How far a queue is. Commands are numbered from 1 as they are issued; the number is their ticket.
/// It outlives the queue as long as somebody holds an event.
class Timeline : public std::enable_shared_from_this<Timeline> {
 public:
  /// `role` says which of the device's queues it is of, where it is not the one that computes.
  explicit Timeline(std::string device, const std::string& role = "")
      : device_(std::move(device)), row_(role.empty() ? device_ : device_ + " " + role) {}
  virtual ~Timeline() = default;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  const std::string& device() const { return device_; }

  /// What its row in a profile is called: "/device:GPU:0 exchange".
  const std::string& row() const { return row_; }

  /// Held while commands are issued, so that those of one piece of work follow each other.
  using Issuing = std::recursive_timed_mutex;
  Issuing& issuing() { return issuing_; }

  /// To be called with issuing() held: the ticket of the command that is being issued.
  uint64_t next_ticket() { return ++issued_; }

  /// As Queue::record.
  Event last();

  /// To be called with issuing() held: the next command waits for `event`, and who misses a
  /// deadline then asks it. Returns what is already known to be wrong there, or null; the command
  /// must then fail with that. What is not known yet the command finds as a fault that stands.
  std::exception_ptr note_wait(const Event& event);

  /// Keeps `what` until the commands issued so far have run. It is let go of by a thread that
  /// issues or waits, never by the device.
  void hold(std::shared_ptr<const void> what);

  /// As Queue::undo_on_fault.
  void undo_on_fault(const UndoFn& undo);

  /// As Event::wait, or as Event::wait_once.
  Event::Waited wait(uint64_t ticket, std::chrono::nanoseconds deadline, bool once);

  /// The commands up to this ticket have run. Faults that they found show up no later than this.
  virtual uint64_t reached() const = 0;

  /// As Event::has_failed. Costs a load as long as nothing has gone wrong here.
  bool has_failed(uint64_t ticket) const;

 protected:
  /// What a command has found wrong with the values it was given, such as a label that is no class.
  struct Fault {
    uint64_t ticket = 0;
    std::exception_ptr error{};
  };

  /// The ticket of the last command.
  uint64_t issued() const { return issued_.load(); }

  /// Returns false when `deadline` has passed.
  virtual bool wait_until(uint64_t ticket, core::Clock::time_point deadline) = 0;

  /// The ticket of the first command that found something wrong since the last clear_fault(), or 0.
  virtual uint64_t fault_ticket() const = 0;

  /// What was wrong, and an end to it. To be called when all commands have run.
  virtual std::exception_ptr fault_error() const = 0;
  virtual void clear_fault() = 0;

 private:
  /// A fault that somebody has been told of. The commands from `first` to `last` are behind it.
  struct Failed {
    uint64_t first;
    uint64_t last;  ///< kStanding until the fault is cleared.
    std::exception_ptr error;
    std::shared_ptr<std::atomic<bool>> was_thrown;  ///< On any device that it reached.
  };
  static constexpr uint64_t kStanding = ~uint64_t{0};
  struct Wait {
    uint64_t ticket = 0;
    Event event{};
  };
  struct Hold {
    uint64_t ticket = 0;
    std::shared_ptr<const void> what{};
  };
  struct Undo {
    uint64_t ticket = 0;
    UndoFn run{};
  };

  [[noreturn]] void throw_late(std::chrono::nanoseconds deadline);
  std::vector<std::shared_ptr<Timeline>> linked();
  void settle_fault(std::chrono::nanoseconds deadline);
  void remember_fault(const std::shared_ptr<std::atomic<bool>>& was_thrown);
  void clear_own_fault();
  const Failed* failed_at(uint64_t ticket) const;
  std::string culprit();
  void release_holds();

  const std::string device_;
  const std::string row_;
  Issuing issuing_;
  std::atomic<uint64_t> issued_{0};
  std::atomic<uint64_t> cleared_{0};  // How far `issued_` was when the last fault was cleared.
  std::atomic<bool> has_ever_failed_{false};
  mutable std::mutex mutex_;  // Guards what follows.
  std::vector<std::weak_ptr<Timeline>>
      neighbours_;          // Those that wait for this one, or it for them.
  core::Fifo<Wait> waits_;  // The waits that are not over yet, in order.
  core::Fifo<Hold> holds_;
  core::Fifo<Undo> undos_;      // In order, of commands that have not run well yet.
  std::vector<Failed> failed_;  // In order, the last ones, for late readers.
};

class Queue {
 public:
  virtual ~Queue() = default;

  /// True where every command has run when the call that issues it returns.
  virtual bool immediate() const = 0;

  /// Runs `work` now, on this thread. The commands that it issues follow each other, with none of
  /// another thread's between them. Returns the event of the last, which what they compute is ready
  /// at: a record() afterwards may come behind a fault of theirs that another thread has cleared.
  template <class Work>
  Event submit(Work&& work) {
    const auto lock = issuing();
    work();
    return record();
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

  /// Calls `undo` if one of the commands so far goes wrong, or is behind one that did: on the
  /// thread that is told of it, once all commands have run, the latest undo first.
  virtual void undo_on_fault(const UndoFn& undo) = 0;

  /// Commands issued from now on run after `event`. What was found wrong before it is wrong here
  /// too, also where somebody has been told of it already.
  virtual void wait(const Event& event) = 0;

  /// Commands issued from now on, in the same submit(), use a value that was there at `event`, and
  /// come behind it in any case. If it is known to be bad, then so is what they compute.
  void use(const Event& event) {
    if (event.has_failed()) wait(event);
  }

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
  void undo_on_fault(const UndoFn&) override {}
  void wait(const Event& event) override;

 protected:
  std::unique_lock<Timeline::Issuing> issuing() override { return {}; }
};

}  // namespace tandem::devices
