#include "device/gpu/fault.h"

#include <fmt/format.h>

#include "tandem/error.h"

namespace tandem::devices::gpu {

FaultReports& FaultReports::instance() {
  static auto* reports = new FaultReports;
  return *reports;
}

uint32_t FaultReports::add(FaultReport report) {
  const std::lock_guard lock(mutex_);
  while (++last_ == 0 || reports_.contains(last_)) {
  }
  reports_.emplace(last_, std::move(report));
  return last_;
}

uint32_t FaultReports::add_known(std::exception_ptr error) {
  constexpr size_t kMost = 64;
  const uint32_t number = add([error](int64_t, int64_t) { std::rethrow_exception(error); });
  uint32_t oldest = 0;
  {
    const std::lock_guard lock(mutex_);
    known_.push_back(number);
    if (known_.size() <= kMost) return number;
    oldest = known_.front();
    known_.pop_front();
  }
  remove(oldest);
  return number;
}

void FaultReports::remove(uint32_t number) {
  const std::lock_guard lock(mutex_);
  reports_.erase(number);
}

std::exception_ptr FaultReports::error_of(const FaultWord& word, const std::string& device) {
  FaultReport report;
  {
    const std::lock_guard lock(mutex_);
    const auto found = reports_.find(word.report);
    if (found != reports_.end()) report = found->second;
  }
  try {
    if (report) report(word.place, word.value);
    throw InvalidArgument(fmt::format("{}: a call found the value {} at {}, which is not allowed",
                                      device, word.value, word.place));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace tandem::devices::gpu
