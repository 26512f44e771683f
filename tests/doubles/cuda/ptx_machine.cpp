#include "ptx_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tandem::doubles::ptx {
namespace {

/// Shared memory that nobody has written to is NaN.
constexpr int kPoison = 0xff;

class Machine {
 public:
  Machine(const PtxKernel& kernel, const PtxLaunch& launch, const FindRange& find_range)
      : kernel_(kernel),
        launch_(launch),
        count_(launch.threads[0] * launch.threads[1] * launch.threads[2]),
        frames_(kernel.has_barrier ? count_ : 1),
        slots_(static_cast<size_t>(kernel.slots) * frames_),
        shared_(kernel.shared_bytes + 16),
        local_(kernel.local_bytes * frames_ + 16),
        ranges_(static_cast<size_t>(kernel.ranges)) {
    thread_.kernel = &kernel;
    thread_.shared = shared_.data();
    thread_.parameters = launch.parameters.data();
    thread_.ranges = ranges_.data();
    thread_.find_range = &find_range;
    for (uint32_t i = 0; i < frames_; ++i) fill_constants(frame(i));
  }

  uint64_t run() {
    const uint64_t blocks = uint64_t{launch_.blocks[0]} * launch_.blocks[1] * launch_.blocks[2];
    for (uint64_t i = 0; i < blocks; ++i) run_block(in_order(i, blocks));
    return executed_;
  }

 private:
  uint64_t in_order(uint64_t i, uint64_t count) const {
    return launch_.order == ThreadOrder::forward ? i : count - 1 - i;
  }

  uint64_t* frame(uint32_t thread) {
    return slots_.data() + static_cast<size_t>(kernel_.slots) * (thread % frames_);
  }

  void fill_constants(uint64_t* slots) {
    for (const auto& [slot, value] : kernel_.constants) slots[slot] = value;
    for (int i = 0; i < 3; ++i) {
      slots[kThreadsX + i] = launch_.threads[i];
      slots[kBlocksX + i] = launch_.blocks[i];
    }
  }

  void enter(uint32_t thread, uint64_t block) {
    uint64_t* const slots = frame(thread);
    slots[kThreadX] = thread % launch_.threads[0];
    slots[kThreadY] = thread / launch_.threads[0] % launch_.threads[1];
    slots[kThreadZ] = thread / launch_.threads[0] / launch_.threads[1];
    slots[kBlockX] = block % launch_.blocks[0];
    slots[kBlockY] = block / launch_.blocks[0] % launch_.blocks[1];
    slots[kBlockZ] = block / launch_.blocks[0] / launch_.blocks[1];
    slots[kLane] = thread % 32;
  }

  /// Runs a thread from `at` until it stops.
  void advance(uint32_t thread, const PtxInstruction* at) {
    thread_.local = local_.data() + kernel_.local_bytes * (thread % frames_);
    thread_.state = Thread::State::running;
    uint64_t* const slots = frame(thread);
    uint64_t executed = 0;
    while (at != nullptr) {
      at = at->step(at, slots, thread_);
      ++executed;
    }
    executed_ += executed;
  }

  void run_block(uint64_t block) {
    std::memset(shared_.data(), kPoison, shared_.size());
    if (!kernel_.has_barrier) {
      for (uint32_t i = 0; i < count_; ++i) {
        const auto thread = static_cast<uint32_t>(in_order(i, count_));
        enter(thread, block);
        advance(thread, kernel_.code.data());
      }
      return;
    }
    std::vector<const PtxInstruction*> at(count_, kernel_.code.data());
    for (uint32_t i = 0; i < count_; ++i) enter(i, block);
    while (advance_all(at)) {
    }
  }

  /// Up to the next barrier; false where the block has ended.
  bool advance_all(std::vector<const PtxInstruction*>& at) {
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      const auto thread = static_cast<uint32_t>(in_order(i, count_));
      advance(thread, at[thread]);
      const bool waits = thread_.state == Thread::State::waiting;
      at[thread] = waits ? thread_.at : nullptr;
      waiting += waits ? 1 : 0;
    }
    if (waiting == 0) return false;
    if (waiting == count_ && std::ranges::count(at, at[0]) == count_) return true;
    throw DeviceFault(
        DeviceFault::Kind::program,
        fmt::format(
            "{}: {} of {} threads of a block wait at a barrier, and not all at the same one",
            kernel_.name, waiting, count_));
  }

  const PtxKernel& kernel_;
  const PtxLaunch& launch_;
  const uint32_t count_;   // Threads of a block,
  const uint32_t frames_;  // and how many of them are under way at the same time.
  std::vector<uint64_t> slots_;
  std::vector<char> shared_;
  std::vector<char> local_;
  std::vector<PtxRange> ranges_;
  Thread thread_;
  uint64_t executed_ = 0;
};

}  // namespace

uint64_t run(const PtxKernel& kernel, const PtxLaunch& launch, const FindRange& find_range) {
  return Machine(kernel, launch, find_range).run();
}

void throw_bad_address(const PtxInstruction* instruction, const Thread& thread, uint64_t address,
                       size_t bytes, const char* why) {
  const auto line = static_cast<size_t>(instruction - thread.kernel->code.data());
  throw DeviceFault(
      address % bytes == 0 ? DeviceFault::Kind::address : DeviceFault::Kind::alignment,
      fmt::format("{}: '{}' uses {} bytes at {:#x}, {}", thread.kernel->name,
                  thread.kernel->text[line], bytes, address, why));
}

}  // namespace tandem::doubles::ptx
