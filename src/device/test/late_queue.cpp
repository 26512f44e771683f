#include "device/test/late_queue.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "core/alignment.h"
#include "profile/span.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::devices::test {
namespace {

/// What was never written, or was given back, reads as nonsense, not as zero.
constexpr int kNonsense = 0xa5;

std::atomic<const CopyHook*> copy_hook{nullptr};

}  // namespace

/// A hook that a stuck thread may still be in is never freed.
void set_copy_hook(CopyHook hook) {
  static auto* hooks = new std::deque<CopyHook>;
  copy_hook = hook ? &hooks->emplace_back(std::move(hook)) : nullptr;
}

/// A process that ends takes down the libraries that kernels use: no kernel may still run then. The
/// main thread's own objects die before anything else does, so one of them stops the queues.
struct LateTimeline::AtExit {
  ~AtExit() {
    if (getpid() != gettid()) return;
    for (const auto& timeline : listed()) {
      if (const auto alive = timeline.lock()) alive->stop();
    }
  }

  static void add(const std::shared_ptr<LateTimeline>& timeline) {
    thread_local const AtExit guard;
    const std::lock_guard lock(mutex());
    std::erase_if(all(), [](const auto& other) { return other.expired(); });
    all().push_back(timeline);
  }

 private:
  /// A copy. A timeline that is added holds its own lock, and stop() takes that lock too: nobody
  /// may stop a timeline while this list is locked.
  static std::vector<std::weak_ptr<LateTimeline>> listed() {
    const std::lock_guard lock(mutex());
    return all();
  }
  static std::mutex& mutex() {
    static auto* mutex = new std::mutex;
    return *mutex;
  }
  static std::vector<std::weak_ptr<LateTimeline>>& all() {
    static auto* all = new std::vector<std::weak_ptr<LateTimeline>>;
    return *all;
  }
};

LateTimeline::LateTimeline(LateOptions options)
    : Timeline(options.device, options.role), options_(std::move(options)) {}

void LateTimeline::issue(std::function<void()> command, bool changes_state) {
  const std::lock_guard issuing(this->issuing());
  const uint64_t ticket = next_ticket();
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable() && !leaving_) open();
    pending_.push_back({ticket, std::move(command), changes_state});
  }
  changed_.notify_all();
}

void LateTimeline::defer(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable() && !leaving_) {
      pending_.push_back({0, std::move(work), false});
      work = nullptr;
    }
  }
  work ? work() : changed_.notify_all();
}

void LateTimeline::open() {
  auto self = std::static_pointer_cast<LateTimeline>(shared_from_this());
  AtExit::add(self);
  thread_ = std::thread([self] { self->serve(); });
}

/// Takes no further work and waits, not for ever, until the command at hand is done.
void LateTimeline::stop() {
  std::unique_lock lock(mutex_);
  leaving_ = true;
  changed_.notify_all();
  if (!thread_.joinable()) return;
  const bool done = changed_.wait_for(lock, std::chrono::seconds(2), [this] { return !working_; });
  std::thread thread = std::move(thread_);
  lock.unlock();
  done ? thread.join() : thread.detach();
}

bool LateTimeline::is_stopped() const {
  const std::lock_guard lock(mutex_);
  return leaving_;
}

bool LateTimeline::is_open() const {
  const std::lock_guard lock(mutex_);
  return thread_.joinable();
}

uint64_t LateTimeline::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}

bool LateTimeline::wait_until(uint64_t ticket, core::Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return reached_ >= ticket; });
}

uint64_t LateTimeline::fault_ticket() const {
  const std::lock_guard lock(mutex_);
  return fault_.ticket;
}

std::exception_ptr LateTimeline::fault_error() const {
  const std::lock_guard lock(mutex_);
  return fault_.error;
}

void LateTimeline::clear_fault() {
  const std::lock_guard lock(mutex_);
  fault_ = {};
}

void LateTimeline::set_fault(uint64_t ticket, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (fault_.ticket == 0) fault_ = {ticket, std::move(error)};
}

void LateTimeline::take_over_fault(const Event& event) {
  const auto other = std::dynamic_pointer_cast<LateTimeline>(event.timeline());
  if (!other) return;
  Fault fault;
  {
    const std::lock_guard lock(other->mutex_);
    fault = other->fault_;
  }
  if (fault.ticket != 0 && fault.ticket <= event.ticket()) std::rethrow_exception(fault.error);
}

void LateTimeline::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return leaving_ || (!pending_.empty() && !options_.stuck); });
    if (leaving_) return;
    Command command = std::move(pending_.front());
    pending_.pop_front();
    working_ = true;
    lock.unlock();
    run(command);
    command.run = nullptr;
    lock.lock();
    working_ = false;
    reached_ = std::max(reached_, command.ticket);
    changed_.notify_all();
  }
}

void LateTimeline::run(Command& command) {
  sleep();
  if (command.changes_state && fault_ticket() != 0) return;
  try {
    command.run();
  } catch (...) {
    set_fault(command.ticket, std::current_exception());
  }
}

void LateTimeline::sleep() {
  if (options_.delay.count() == 0) return;
  const auto most = static_cast<unsigned>(options_.delay.count());
  std::this_thread::sleep_for(options_.random_delay ? std::chrono::microseconds(random_() % most)
                                                    : options_.delay);
}

void LateQueue::copy(MemorySpace& to_space, void* to, const MemorySpace& from_space,
                     const void* from, size_t bytes) {
  if (bytes == 0) return;
  void* const target = real_address(to_space, to);
  const void* const source = real_address(from_space, from);
  const bool between = &to_space != &from_space;
  timeline_->issue([target, source, bytes, between, row = timeline_->row()] {
    if (!between) {
      std::memmove(target, source, bytes);
      return;
    }
    if (const CopyHook* hook = copy_hook) (*hook)(row);
    if (profile::is_profiling()) profile::name_row(row);
    const profile::Span copying("copy", profile::Activity::copy, 0, static_cast<double>(bytes));
    std::memcpy(target, source, bytes);
  });
}

void LateQueue::fill(void* to, uint8_t value, size_t bytes) {
  if (bytes == 0) return;
  timeline_->issue(
      [target = memory_->real(to), value, bytes] { std::memset(target, value, bytes); });
}

void LateQueue::wait(const Event& event) {
  if (!event.timeline()) return;
  const auto lock = issuing();
  const std::exception_ptr known = timeline_->note_wait(event);
  timeline_->issue([event, known, timeline = timeline_.get()] {
    if (known) std::rethrow_exception(known);
    while (!event.ready() && !timeline->is_stopped()) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    timeline->take_over_fault(event);
  });
}

LateMemory::LateMemory(std::string name, size_t capacity, std::shared_ptr<LateTimeline> timeline)
    : name_(std::move(name)), capacity_(capacity), timeline_(std::move(timeline)) {}

void* LateMemory::allocate(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (capacity_ != 0 && taken_ + bytes > capacity_) return nullptr;
    taken_ += bytes;
  }
  auto* memory = static_cast<char*>(
      std::aligned_alloc(core::kAlignment, core::aligned(std::max<size_t>(bytes, 1))));
  void* const data = memory == nullptr ? nullptr : addresses_.add(bytes, memory);
  if (data == nullptr) {
    std::free(memory);
    const std::lock_guard lock(mutex_);
    taken_ -= bytes;
    return nullptr;
  }
  std::memset(memory, kNonsense, bytes);
  return data;
}

/// Memory is given back in order with the commands, which may still use it.
void LateMemory::deallocate(void* data, size_t bytes) noexcept {
  char* const memory = addresses_.remove(data);
  {
    const std::lock_guard lock(mutex_);
    taken_ -= bytes;
  }
  timeline_->defer([memory] { std::free(memory); });
}

void LateMemory::forget(void* data, size_t bytes) noexcept {
  timeline_->defer([memory = real(data), bytes] { std::memset(memory, kNonsense, bytes); });
}

void* LateMemory::real(const void* address) const {
  if (const auto place = addresses_.find(address)) return place->buffer + place->offset;
  throw InvalidArgument(fmt::format("test device: {} is no address of {}", address, name_));
}

void* real_address(const MemorySpace& space, const void* address) {
  if (space.host_readable()) return const_cast<void*>(address);
  return dynamic_cast<const LateMemory&>(space).real(address);
}

}  // namespace tandem::devices::test
