/// A device made for tests: its memory cannot be read by the host, its queue runs late on a thread
/// of its own, and any kernel can be missing. What is correct here is correct on a GPU.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "device/device.h"

namespace tandem::devices::test {

struct Options {
  int index = 0;                            ///< Of "/device:GPU:<index>".
  std::chrono::microseconds delay{0};       ///< How late each piece of work starts.
  std::set<std::string> missing_kernels{};  ///< Ops that have no kernel on this device.
  bool stuck = false;                       ///< The queue accepts work and never runs it.
};

/// Adds "/device:GPU:<index>" with backend "test". It computes with the CPU's kernels.
void add_test_gpu(const Options& options = {});

}  // namespace tandem::devices::test
