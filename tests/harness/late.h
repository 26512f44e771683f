/// Host code as a command of a test device's queue.
#pragma once

#include <functional>

#include "device/logical_device.h"
#include "device/test/late_queue.h"

namespace tandem::harness {

inline void issue_late(devices::Queue& queue, std::function<void()> command) {
  dynamic_cast<devices::test::LateQueue&>(queue).timeline().issue(std::move(command));
}

}  // namespace tandem::harness
