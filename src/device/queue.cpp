#include "device/queue.h"

#include <fmt/format.h>

#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::devices {

struct Event::State {
  std::string owner;
  core::Signal done;
  std::shared_ptr<QueueError> error;  // Written before `done` advances, read after.
};

Event Event::pending(std::string owner) {
  Event event;
  event.state_ = std::make_shared<State>();
  event.state_->owner = std::move(owner);
  return event;
}

bool Event::ready() const { return !state_ || state_->done.value() != 0; }

void Event::complete(std::shared_ptr<QueueError> error) const {
  state_->error = std::move(error);
  state_->done.advance();
}

void Event::wait(std::chrono::nanoseconds deadline) const {
  if (!state_) return;
  if (!state_->done.wait_past(0, core::Clock::now() + deadline)) {
    throw DeadlineExceeded(fmt::format("{} did not finish its work within {:.3g} s", state_->owner,
                                       std::chrono::duration<double>(deadline).count()));
  }
  if (!state_->error) return;
  state_->error->seen = true;
  std::rethrow_exception(state_->error->error);
}

void ImmediateQueue::wait(Event event) { event.wait(config::wait_deadline()); }

}  // namespace tandem::devices
