/// Whether the loss of a training is still a number. From the first that is none on, steps change
/// nothing (see Trainer), so that it is enough to look now and then.
#pragma once

#include <chrono>

#include "keras/training/trainer.h"
#include "tandem/error.h"

namespace tandem::keras {

class LossWatch {
 public:
  explicit LossWatch(const Trainer& trainer) : trainer_(trainer) {}

  void begin_epoch(int epoch);

  /// True about once a second: it is time to look.
  bool is_due();

  static bool is_number(const Logs& logs);

  /// What fit throws when the loss in `logs` is none: in which step that was, and what to do.
  InvalidArgument error(const Logs& logs) const;

  /// The same with other words for who found it where.
  InvalidArgument error(const Logs& logs, std::string_view who, std::string_view where) const;

 private:
  using Clock = std::chrono::steady_clock;

  int64_t iterations() const;

  const Trainer& trainer_;
  int epoch_ = 0;
  int64_t before_epoch_ = 0;  // The steps taken before the epoch.
  Clock::time_point looked_ = Clock::now();
};

}  // namespace tandem::keras
