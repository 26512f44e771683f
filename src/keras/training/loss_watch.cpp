#include "keras/training/loss_watch.h"

#include <fmt/format.h>

#include <cmath>

namespace tandem::keras {

int64_t LossWatch::iterations() const {
  return trainer_.options().optimizer.iterations().value().item<int64_t>();
}

void LossWatch::begin_epoch(int epoch) {
  epoch_ = epoch;
  before_epoch_ = iterations();
}

bool LossWatch::is_due() {
  const auto now = Clock::now();
  if (now - looked_ < std::chrono::seconds(1)) return false;
  looked_ = now;
  return true;
}

bool LossWatch::is_number(const Logs& logs) {
  const auto loss = logs.find("loss");
  return loss == logs.end() || std::isfinite(loss->second);
}

InvalidArgument LossWatch::error(const Logs& logs) const {
  const int64_t good = iterations() - before_epoch_;
  return error(logs, "fit", fmt::format("step {} of epoch {}", good + 1, epoch_ + 1));
}

InvalidArgument LossWatch::error(const Logs& logs, std::string_view who,
                                 std::string_view where) const {
  const double rate = trainer_.options().optimizer.current_learning_rate().item<double>();
  return InvalidArgument(fmt::format(
      "{}: the loss is {} in {}; the weights are those before it. Look for infinite or missing "
      "values in x and y, or take a smaller learning_rate ({} now)",
      who, logs.at("loss"), where, rate));
}

}  // namespace tandem::keras
