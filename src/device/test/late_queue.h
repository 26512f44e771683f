/// The queue and the memory of a test device. Commands are host code that a thread of the queue
/// runs late, in order; everything else is as on a GPU: arguments are taken when a command is
/// issued, errors show up at a wait, and memory that was given back is overwritten.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <random>
#include <thread>

#include "device/address_map.h"
#include "device/memory_space.h"
#include "device/queue.h"

namespace tandem::devices::test {

/// Called before each copy between two memories is made, with the row of its queue, as
/// "/device:GPU:0 exchange". It may throw or block. An empty function removes it.
using CopyHook = std::function<void(const std::string& row)>;
void set_copy_hook(CopyHook hook);

struct LateOptions {
  std::string device;
  std::chrono::microseconds delay{0};  ///< How late each command starts,
  bool random_delay = false;           ///< or the most that it may be late.
  bool stuck = false;                  ///< Commands are taken and never run.
  std::string role{};                  ///< As Timeline has it.
};

/// What runs the commands. The thread begins with the first.
class LateTimeline final : public Timeline {
 public:
  explicit LateTimeline(LateOptions options);

  /// Puts a command behind those before it. `changes_state`: it does nothing while a fault stands.
  void issue(std::function<void()> command, bool changes_state = false);

  /// Runs `work` behind the commands that were issued so far, as no command of its own: an
  /// allocator calls it with its lock held. At once where nothing was issued or will run.
  void defer(std::function<void()> work);

  /// Ends the thread; what it has not begun is left undone.
  void stop();
  bool is_stopped() const;

  /// Its thread has begun.
  bool is_open() const;

  uint64_t reached() const override;

  /// What `event`'s device has found wrong is wrong here too.
  void take_over_fault(const Event& event);

 protected:
  bool wait_until(uint64_t ticket, core::Clock::time_point deadline) override;
  uint64_t fault_ticket() const override;
  std::exception_ptr fault_error() const override;
  void clear_fault() override;

 private:
  struct Command {
    uint64_t ticket;  // 0 for what was deferred.
    std::function<void()> run;
    bool changes_state;
  };
  struct AtExit;

  void serve();
  void run(Command& command);
  void set_fault(uint64_t ticket, std::exception_ptr error);
  void sleep();
  void open();

  const LateOptions options_;
  std::minstd_rand random_;  // Touched by the thread alone.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Command> pending_;
  uint64_t reached_ = 0;
  Fault fault_;
  bool leaving_ = false;
  bool working_ = false;
  std::thread thread_;
};

class LateMemory;

class LateQueue final : public Queue {
 public:
  LateQueue(std::shared_ptr<LateTimeline> timeline, std::shared_ptr<const LateMemory> memory)
      : timeline_(std::move(timeline)), memory_(std::move(memory)) {}
  ~LateQueue() override { timeline_->stop(); }

  bool immediate() const override { return false; }
  void hold(std::shared_ptr<const void> what) override { timeline_->hold(std::move(what)); }
  void copy(MemorySpace& to_space, void* to, const MemorySpace& from_space, const void* from,
            size_t bytes) override;
  void fill(void* to, uint8_t value, size_t bytes) override;
  void undo_on_fault(const UndoFn& undo) override { timeline_->undo_on_fault(undo); }
  Event record() override { return timeline_->last(); }
  void wait(const Event& event) override;

  LateTimeline& timeline() { return *timeline_; }

 protected:
  std::unique_lock<Timeline::Issuing> issuing() override {
    return std::unique_lock(timeline_->issuing());
  }

 private:
  const std::shared_ptr<LateTimeline> timeline_;
  const std::shared_ptr<const LateMemory> memory_;
};

/// Memory with addresses that only the device's commands can follow.
class LateMemory final : public MemorySpace {
 public:
  LateMemory(std::string name, size_t capacity, std::shared_ptr<LateTimeline> timeline);

  const std::string& name() const override { return name_; }
  bool host_readable() const override { return false; }
  void* allocate(size_t bytes) override;
  void deallocate(void* data, size_t bytes) noexcept override;
  void forget(void* data, size_t bytes) noexcept override;

  /// What a command follows instead of `address`. Throws InvalidArgument for one that is not of
  /// this space.
  void* real(const void* address) const;

 private:
  const std::string name_;
  const size_t capacity_;  // 0 is no limit.
  const std::shared_ptr<LateTimeline> timeline_;
  AddressMap<char*> addresses_;
  std::mutex mutex_;
  size_t taken_ = 0;
};

/// The address that a command follows, in any space that it can reach.
void* real_address(const MemorySpace& space, const void* address);

}  // namespace tandem::devices::test
