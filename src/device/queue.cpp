#include "device/queue.h"

#include <fmt/format.h>

#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::devices {

struct Event::State {
  core::Signal done;
  std::exception_ptr error;  // Written before `done` advances, read after.
};

Event Event::pending() {
  Event event;
  event.state_ = std::make_shared<State>();
  return event;
}

bool Event::ready() const { return !state_ || state_->done.value() != 0; }

void Event::complete(std::exception_ptr error) const {
  state_->error = std::move(error);
  state_->done.advance();
}

void Event::wait(const std::string& waiting_for, std::chrono::nanoseconds deadline) const {
  if (!state_) return;
  if (!state_->done.wait_past(0, core::Clock::now() + deadline)) {
    throw DeadlineExceeded(fmt::format("{} did not finish its work within {:.3g} s", waiting_for,
                                       std::chrono::duration<double>(deadline).count()));
  }
  if (state_->error) std::rethrow_exception(state_->error);
}

void ImmediateQueue::wait(Event event) { event.wait("another device", config::wait_deadline()); }

}  // namespace tandem::devices
