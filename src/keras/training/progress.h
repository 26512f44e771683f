/// What fit and evaluate show while they run: a bar that moves on a terminal, a line per epoch
/// elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "tandem/distribute/strategy.h"
#include "tandem/keras/training.h"

namespace tandem::keras {

/// One of several processes shows something.
inline Verbose shown_by(const distribute::Strategy& strategy, Verbose verbose) {
  return strategy.is_chief() ? verbose : Verbose::silent;
}

class Progress {
 public:
  using LogsFn = std::function<Logs()>;

  /// Prints to std::cout where `output` is null.
  Progress(std::ostream* output, Verbose verbose);

  /// "Epoch 1/2". `steps` may be unknown.
  void begin_epoch(int epoch, int epochs);
  void begin(std::optional<int64_t> steps);

  /// Is called after each step. Asks for the logs, which waits for the device, a few times a second
  /// at most.
  void step(int64_t done, const LogsFn& logs);

  /// The last line: all of it, with the samples per second.
  void end(int64_t done, int64_t samples, const Logs& logs);

  /// Prints lines below all epochs.
  void end_of_training(const std::string& summary);

 private:
  enum class Show { nothing, bar, line };
  static Show shown(const std::ostream* output, Verbose verbose);

  using Clock = std::chrono::steady_clock;
  std::string line(int64_t done, const Logs& logs, bool finished, int64_t samples) const;

  std::ostream& out_;
  const Show show_;
  std::optional<int64_t> steps_;
  Clock::time_point start_;
  Clock::time_point shown_;
  size_t width_ = 0;  // The width of what the terminal shows now.
};

}  // namespace tandem::keras
