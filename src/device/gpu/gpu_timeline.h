/// How far a GPU's stream is. A mark is a point that the driver can be asked about: one is made
/// behind every few commands and where somebody waits, so most events cost nothing. Behind commands
/// that may find bad values, the fault word comes to the host with the next mark.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "device/gpu/compiler.h"
#include "device/gpu/fault.h"
#include "device/gpu/gpu_memory.h"
#include "device/queue.h"
#include "profile/device_clock.h"
#include "profile/span.h"

namespace tandem::devices::gpu {

/// What commands are called in a profile.
struct CommandLabel {
  const char* name = "copy";
  profile::Activity kind = profile::Activity::copy;
  double flops = 0;
  double bytes = 0;
  int replica = -1;
};

/// Returns false when `deadline` has passed. Throws what Mark::is_reached does.
bool wait_for(const Mark& mark, core::Clock::time_point deadline);

/// From the device's clock to the host's, as all of the device's queues have seen it. A command
/// ends before the host hears of it, so the least difference that was ever seen is the best guess.
struct ClockOffset {
  std::atomic<int64_t> ns{INT64_MAX};

  void see(int64_t difference) {
    int64_t known = ns;
    while (difference < known && !ns.compare_exchange_weak(known, difference)) {
    }
  }
};

/// What a device's queue was given once, to be run again.
struct CapturedRun {
  std::shared_ptr<const CapturedCommands> commands{};
  bool may_find_fault = false;
  std::vector<std::shared_ptr<const void>> held{};  ///< What the commands use.
};
using CapturedRunPtr = std::shared_ptr<const CapturedRun>;

class GpuTimeline final : public Timeline, public profile::DeviceClock {
 public:
  /// Which of the device's queues it is of.
  enum class Role { compute, input, exchange };

  GpuTimeline(std::string device, Role role, std::shared_ptr<GpuMemory> memory,
              std::shared_ptr<Compiler> compiler, std::shared_ptr<ClockOffset> clock);
  ~GpuTimeline() override;

  /// What a command may do to the device's state.
  struct Effect {
    bool may_find_fault = false;
  };

  /// Issues a command: `command` gets the stream, which is opened by the first, and its ticket.
  template <class Command>
  void issue(const CommandLabel& label, const Effect& effect, const Command& command) {
    const std::lock_guard issuing(this->issuing());
    if (is_capturing()) {
      captured_->may_find_fault |= effect.may_find_fault;
      return command(capture_->stream(), kCaptured);
    }
    const std::lock_guard lock(stream_mutex_);
    const uint64_t ticket = begin_command();
    command(*stream_, ticket);
    end_command(label, effect);
  }

  /// Keeps the commands that `work` issues on this thread instead of running them. Null where the
  /// device cannot, or where they are none that can be kept: then nothing has been done.
  CapturedRunPtr capture(const std::function<void()>& work);

  /// This thread is within the work of capture(). What is held then is held by what was captured.
  bool is_capturing() const { return capturing_here == this; }
  void hold_captured(std::shared_ptr<const void> what) {
    captured_->held.push_back(std::move(what));
  }

  /// Issues what was captured here.
  void replay(const CapturedRunPtr& captured);

  /// Commands from now on run after `event`, of another GPU. What was found wrong there is wrong
  /// here too.
  void wait_for(const Event& event, GpuTimeline& other);

  /// Why the device does not work any more; null as long as it does.
  std::exception_ptr loss() const;

  /// What is issued from now on is behind something that is known to be wrong.
  void set_fault(std::exception_ptr error);

  /// Where the device's fault word is. Opens the stream.
  Location fault_word() {
    if (Memory words = fault_words_.load(std::memory_order_acquire)) return {words, 0};
    return open_fault_word();
  }

  void flush() noexcept override;

  /// Waits until the device has nothing left to do, or two seconds: then it is left alone for good.
  void stop() noexcept;

  uint64_t reached() const override;
  const GpuMemory& memory() const { return *memory_; }

 protected:
  bool wait_until(uint64_t ticket, core::Clock::time_point deadline) override;
  uint64_t fault_ticket() const override;
  std::exception_ptr fault_error() const override;
  void clear_fault() override;

 private:
  struct Marked {
    uint64_t ticket = 0;
    std::shared_ptr<Mark> mark{};
    bool has_fault = false;              // A command before it may have set the fault word:
    std::shared_ptr<FaultWord> fault{};  // here is what it was then.
  };
  struct TimedLabel {
    uint64_t ticket = 0;
    CommandLabel label{};
    std::shared_ptr<TimedCommand> command{};
    int64_t issued_ns = 0;
    const char* awaited = nullptr;  // What the device had to wait for before it, if it had to.
  };

  /// The ticket of captured commands, which have another one in each run.
  static constexpr uint64_t kCaptured = 0;
  static thread_local const GpuTimeline* capturing_here;

  void open();
  Location open_fault_word();
  uint64_t begin_command();
  void end_command(const CommandLabel& label, const Effect& effect);
  Marked mark_behind(uint64_t ticket);
  Marked make_mark();
  Marked take_spare();
  bool may_be_bad(uint64_t ticket) const;
  void take_over(Stream& stream, uint64_t ticket);
  const char* what_to_wait_for(const GpuTimeline& other) const;
  void record_timings(uint64_t reached);
  int64_t by_host(uint64_t device_ns) const;
  void record_idle(const TimedLabel& timed, const Timing& timing) const;
  void note_reached(const Marked& marked) const;

  const Role role_;
  const std::shared_ptr<GpuMemory> memory_;
  const std::shared_ptr<Compiler> compiler_;
  const std::shared_ptr<ClockOffset> clock_;

  StreamCapture* capture_ = nullptr;  // The thread that captures has it and holds issuing(),
  CapturedRun* captured_ = nullptr;   // and what it has captured.

  mutable std::mutex stream_mutex_;  // Guards what follows, down to the next mutex.
  std::shared_ptr<Stream> stream_;
  CompiledKernelPtr take_over_;                // Takes over another device's fault word.
  std::atomic<Memory> fault_words_ = nullptr;  // The device's, and room for another device's.
  uint64_t last_ = 0;                          // The ticket of the last command.
  int unmarked_ = 0;                           // The number of commands since the last mark.
  bool is_risky_ = false;                      // One of them may have set the fault word.
  core::Fifo<TimedLabel> timings_;
  const char* awaited_ = nullptr;  // What the next command waits for.
  uint64_t last_end_ns_ = 0;       // The end of the last timed command, by the device's clock.

  mutable std::mutex marks_mutex_;  // Guards what follows.
  mutable core::Fifo<Marked> marks_;
  mutable std::vector<Marked> spare_;  // Marks that were reached, to be set anew.
  mutable uint64_t reached_ = 0;
  mutable uint64_t last_risky_ = 0;  // The last command that may have set the fault word,
  mutable uint64_t looked_at_ = 0;   // and the one up to which it was looked at.
  mutable FaultWord fault_;
  mutable std::exception_ptr lost_;  // Why the device does not work any more.
};

}  // namespace tandem::devices::gpu
