/// The switches of tandem::config that ops look at while they run.
#pragma once

#include <atomic>

#include "tandem/config.h"

namespace tandem::devices {

struct Settings {
  std::atomic<bool> soft_placement{false};
  std::atomic<bool> log_placement{false};
  std::atomic<bool> deterministic{false};
  std::atomic<config::DevicePolicy> policy{config::DevicePolicy::silent};
  std::atomic<config::CapturedSteps> captured_steps{config::CapturedSteps::automatic};
};

inline constinit Settings settings;

}  // namespace tandem::devices
