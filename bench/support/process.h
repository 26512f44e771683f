/// Other processes that benchmarks need: fresh ones for figures that only those can give, and ones
/// that are in the way.
#pragma once

#include <sys/types.h>

#include <optional>

namespace tandem::bench {

/// Starts this program anew with one option and waits for its end; it prints where this one prints.
/// Throws Unavailable when it fails.
void run_self(const char* option);

/// A process that does nothing but spin, as long as this lives.
class Spinner {
 public:
  /// `core`: the one it may run on; any without.
  explicit Spinner(std::optional<int> core);
  ~Spinner();
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

 private:
  pid_t process_ = 0;
};

/// The first core that this process may run on.
int first_core();

/// What the process of a Spinner does. It ends with its parent.
[[noreturn]] void spin();

}  // namespace tandem::bench
