/// Tests that configure devices: each starts as a process does, and leaves nothing behind.
#pragma once

#include <gtest/gtest.h>

#include <chrono>

#include "device/logical_device.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::harness {

class FreshDevices : public testing::Test {
 protected:
  void SetUp() override { restart(); }

  /// Work that is still on a queue holds its device: it ends before the device is forgotten.
  void TearDown() override {
    for (const auto& device : devices::all_devices()) {
      try {
        device->queue().record().wait(std::chrono::seconds(5));
      } catch (const Error&) {
      }
    }
    restart();
  }

  static void restart() {
    devices::reset_devices();
    config::set_wait_deadline(std::chrono::seconds(120));
  }
};

}  // namespace tandem::harness
