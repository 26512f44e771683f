/// A way to end what takes long: training, and waits for data, for a device or for other processes.
///
///   std::signal(SIGINT, [](int) { tandem::interruption::request(); });
///   try {
///     model.fit(x, y, {.epochs = 1000});
///   } catch (const tandem::Interrupted&) {
///     // The weights are those after the last whole step.
///   }
///
/// fit, evaluate and predict look for a request between two steps; whoever waits for the next
/// element of a data set, for a tensor's value, for steps in the background or for other processes
/// to join looks ten times a second, and so does a while_loop, between two iterations. A step of
/// fit that has begun is finished, loops in it too; what a function of one's own assigned before
/// the loop that was ended in it is assigned. Any thread may call these functions; threads of the
/// library's own do not look.
#pragma once

#include <functional>

#include "tandem/error.h"

namespace tandem {

/// Somebody asked for the end: see interruption::request().
class TANDEM_API Interrupted : public internal::ErrorOf<Interrupted> {
 public:
  static constexpr const char* kName = "Interrupted";
  using ErrorOf::ErrorOf;
};

namespace interruption {

/// The next look throws Interrupted, and answers the request by that: one call ends. A request
/// stays until somebody looks. May be called by a signal handler.
TANDEM_API void request() noexcept;

/// `ask` is called at each look, on the thread that looks, and what it throws comes out of what was
/// under way. It replaces the former one; an empty one asks nothing. For bindings to languages that
/// handle signals themselves.
TANDEM_API void set_question(std::function<void()> ask);

/// Looks now: for a loop of one's own, which takes long. Throws as said above.
TANDEM_API void look();

/// While it lives, this thread is within a step that is finished whatever is asked for, as one of
/// fit: a while_loop in it does not look.
class TANDEM_API WholeStep {
 public:
  WholeStep();
  ~WholeStep();
  WholeStep(const WholeStep&) = delete;
  WholeStep& operator=(const WholeStep&) = delete;

  static bool is_on();

 private:
  const bool former_;
};

}  // namespace interruption
}  // namespace tandem
