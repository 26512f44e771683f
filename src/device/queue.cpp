#include "device/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/interruptible.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::devices {

bool Event::ready() const { return !timeline_ || timeline_->reached() >= ticket_; }

void Event::wait(std::chrono::nanoseconds deadline) const {
  if (timeline_) timeline_->wait(ticket_, deadline, false);
}

Event::Waited Event::wait_once(std::chrono::nanoseconds deadline) const {
  return timeline_ ? timeline_->wait(ticket_, deadline, true) : Waited::good;
}

/// Where nothing has been issued since a fault was cleared, everything has run, and what comes next
/// is not behind that fault: the event is empty.
Event Timeline::last() {
  const uint64_t ticket = issued_;
  return ticket == cleared_ ? Event() : Event(shared_from_this(), ticket);
}

bool Event::has_failed() const { return timeline_ && timeline_->has_failed(ticket_); }

/// Asks for what is known after the timelines have been linked: see settle_fault().
std::exception_ptr Timeline::note_wait(const Event& event) {
  release_holds();
  Timeline& other = *event.timeline();
  const auto add = [](Timeline& to, const std::shared_ptr<Timeline>& neighbour) {
    const std::lock_guard lock(to.mutex_);
    const bool known = std::ranges::any_of(
        to.neighbours_, [&](const auto& other) { return other.lock() == neighbour; });
    if (!known) to.neighbours_.push_back(neighbour);
  };
  if (&other != this) {
    add(*this, event.timeline());
    add(other, shared_from_this());
  }
  {
    const std::lock_guard lock(mutex_);
    waits_.push_back({issued_ + 1, event});
  }
  const std::lock_guard lock(other.mutex_);
  const Failed* const failed = other.failed_at(event.ticket());
  return failed == nullptr ? nullptr : failed->error;
}

bool Timeline::has_failed(uint64_t ticket) const {
  if (!has_ever_failed_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  return failed_at(ticket) != nullptr;
}

/// What the command was behind, or null. To be called with the lock held.
const Timeline::Failed* Timeline::failed_at(uint64_t ticket) const {
  const auto found = std::ranges::lower_bound(failed_, ticket, {}, &Failed::last);
  return found != failed_.end() && found->first <= ticket ? &*found : nullptr;
}

void Timeline::hold(std::shared_ptr<const void> what) {
  release_holds();
  const std::lock_guard lock(mutex_);
  holds_.push_back({issued_, std::move(what)});
}

void Timeline::undo_on_fault(const UndoFn& undo) {
  const std::lock_guard lock(mutex_);
  undos_.push_back({issued_, undo});
}

/// What was held may end here, and its own end may issue commands: no lock is held then.
void Timeline::release_holds() {
  const uint64_t reached = this->reached();
  const uint64_t fault = fault_ticket();
  const uint64_t good = fault == 0 ? reached : std::min(reached, fault - 1);
  std::unique_lock lock(mutex_);
  while (!waits_.empty() && waits_.front().ticket <= reached) waits_.pop_front();
  while (!undos_.empty() && undos_.front().ticket <= good) undos_.pop_front();
  while (!holds_.empty() && holds_.front().ticket <= reached) {
    auto released = holds_.pop_front();
    lock.unlock();
    released = {};
    lock.lock();
  }
}

Event::Waited Timeline::wait(uint64_t ticket, std::chrono::nanoseconds deadline, bool once) {
  const auto comes = [&] {
    const auto end = core::Clock::now() + deadline;
    const auto wait = [&](core::Clock::time_point until) { return wait_until(ticket, until); };
    return core::InterruptibleWaits::are_on() ? core::wait_interruptibly(end, wait) : wait(end);
  };
  if (reached() < ticket && !comes()) throw_late(deadline);
  release_holds();
  if (const uint64_t fault = fault_ticket(); fault != 0 && fault <= ticket) settle_fault(deadline);
  const std::lock_guard lock(mutex_);
  const Failed* const failed = failed_at(ticket);
  if (failed == nullptr) return Event::Waited::good;
  if (failed->was_thrown->exchange(true) && once) return Event::Waited::failed;
  std::rethrow_exception(failed->error);
}

/// All timelines that a fault of this one may have reached, or come from; this one with them.
std::vector<std::shared_ptr<Timeline>> Timeline::linked() {
  std::vector<std::shared_ptr<Timeline>> all{shared_from_this()};
  for (size_t i = 0; i < all.size(); ++i) {
    Timeline& next = *all[i];
    const std::lock_guard lock(next.mutex_);
    for (const auto& neighbour : next.neighbours_) {
      const auto alive = neighbour.lock();
      if (alive && std::ranges::find(all, alive) == all.end()) all.push_back(alive);
    }
  }
  std::ranges::sort(all);  // Whoever locks several does so in this order.
  return all;
}

/// Updates do nothing while a fault stands, so it may be cleared only when all that was issued
/// behind it has run, on every device that it may have reached, and while nothing is being issued.
/// A queue that begins to wait for one of them meanwhile has either been linked before the last
/// look, and is then one of them, or it finds the fault among those that are remembered.
void Timeline::settle_fault(std::chrono::nanoseconds deadline) {
  const auto until = core::Clock::now() + deadline;
  const auto was_thrown = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::shared_ptr<Timeline>> all;
  std::vector<std::unique_lock<Issuing>> issuing;
  do {
    issuing.clear();
    all = linked();
    for (const auto& timeline : all) {
      issuing.emplace_back(timeline->issuing_, until);
      const bool settled = issuing.back() && timeline->wait_until(timeline->issued_, until);
      if (!settled) timeline->throw_late(deadline);
    }
    for (const auto& timeline : all) timeline->remember_fault(was_thrown);
  } while (linked() != all);
  for (const auto& timeline : all) timeline->clear_own_fault();
}

void Timeline::remember_fault(const std::shared_ptr<std::atomic<bool>>& was_thrown) {
  constexpr size_t kMostRemembered = 1024;
  const uint64_t first = fault_ticket();
  const std::lock_guard lock(mutex_);
  const bool is_known = !failed_.empty() && failed_.back().last == kStanding;
  if (first == 0 || is_known) return;
  if (failed_.size() == kMostRemembered) failed_.erase(failed_.begin());
  failed_.push_back({first, kStanding, fault_error(), was_thrown});
  has_ever_failed_.store(true, std::memory_order_release);
}

void Timeline::clear_own_fault() {
  core::Fifo<Undo> undos;
  {
    const std::lock_guard lock(mutex_);
    if (failed_.empty() || failed_.back().last != kStanding) return;
    failed_.back().last = issued_;
    cleared_ = issued_.load();
    clear_fault();
    while (!undos_.empty() && undos_.front().ticket < failed_.back().first) undos_.pop_front();
    std::swap(undos, undos_);
  }
  for (size_t i = undos.size(); i-- > 0;) undos[i].run();
}

void Timeline::throw_late(std::chrono::nanoseconds deadline) {
  throw DeadlineExceeded(fmt::format("{} did not finish its work within {:.3g} s", culprit(),
                                     std::chrono::duration<double>(deadline).count()));
}

/// Who stands still: this device, or the one whose event it waits for.
std::string Timeline::culprit() {
  Event awaited;
  {
    const std::lock_guard lock(mutex_);
    size_t open = 0;
    while (open < waits_.size() &&
           (waits_[open].ticket <= reached() || waits_[open].event.ready())) {
      ++open;
    }
    if (open == waits_.size() || waits_[open].ticket > reached() + 1) return device_;
    awaited = waits_[open].event;
  }
  return awaited.timeline()->culprit();
}

std::shared_ptr<char[]> Queue::staging(size_t bytes) {
  return std::make_shared_for_overwrite<char[]>(bytes);
}

void ImmediateQueue::copy(MemorySpace&, void* to, const MemorySpace&, const void* from,
                          size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

void ImmediateQueue::fill(void* to, uint8_t value, size_t bytes) {
  if (bytes > 0) std::memset(to, value, bytes);
}

void ImmediateQueue::wait(const Event& event) { event.wait(config::wait_deadline()); }

}  // namespace tandem::devices
