/// Devices that tell the times of their commands some time after they have run.
#pragma once

#include <memory>

namespace tandem::profile {

class DeviceClock {
 public:
  virtual ~DeviceClock() = default;

  /// Waits, not for ever, until what it was asked has run, and records it.
  virtual void flush() noexcept = 0;
};

/// `clock` is flushed before a profile ends, as long as it lives.
void add_clock(const std::weak_ptr<DeviceClock>& clock);

}  // namespace tandem::profile
