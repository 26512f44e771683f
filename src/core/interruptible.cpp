#include "core/interruptible.h"

#include <atomic>
#include <memory>
#include <mutex>

#include "core/background.h"

namespace tandem {
namespace {

std::atomic<bool> requested{false};

/// The question of the program, and whether there is one.
struct Question {
  std::mutex mutex;
  std::atomic<bool> is_set{false};
  std::shared_ptr<const std::function<void()>> ask;
};

Question& question() {
  static auto* the_question = new Question();  // Threads may look while the process ends.
  return *the_question;
}

thread_local bool waits_are_interruptible = false;
thread_local bool others_look = false;
thread_local bool is_in_whole_step = false;

}  // namespace

namespace interruption {

static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may ask");

void request() noexcept { requested.store(true); }

void set_question(std::function<void()> ask) {
  Question& it = question();
  const std::lock_guard lock(it.mutex);
  it.is_set = ask != nullptr;
  it.ask = ask ? std::make_shared<const std::function<void()>>(std::move(ask)) : nullptr;
}

void look() {
  Question& it = question();
  if (!requested.load(std::memory_order_relaxed) && !it.is_set.load(std::memory_order_relaxed)) {
    return;
  }
  if (core::in_background() || others_look) return;
  if (requested.exchange(false)) throw Interrupted("somebody asked for the end");
  std::shared_ptr<const std::function<void()>> ask;
  {
    const std::lock_guard lock(it.mutex);
    ask = it.ask;
  }
  if (ask) (*ask)();
}

WholeStep::WholeStep() : former_(is_in_whole_step) { is_in_whole_step = true; }
WholeStep::~WholeStep() { is_in_whole_step = former_; }
bool WholeStep::is_on() { return is_in_whole_step; }

}  // namespace interruption

namespace core {

InterruptibleWaits::InterruptibleWaits() : former_(waits_are_interruptible) {
  waits_are_interruptible = true;
}
InterruptibleWaits::~InterruptibleWaits() { waits_are_interruptible = former_; }
bool InterruptibleWaits::are_on() { return waits_are_interruptible; }

void leave_looking_to_others() { others_look = true; }

}  // namespace core
}  // namespace tandem
