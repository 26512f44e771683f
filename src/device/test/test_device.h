/// A device made for tests: its memory cannot be read by the host, its commands run late on a
/// thread of its own, variables exist for float types and int64 only, and any kernel can be
/// missing. What is correct here is correct on a GPU.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "device/logical_device.h"

namespace tandem::devices::test {

struct TestDeviceOptions {
  int index = 0;                            ///< The next one's in "/physical_device:GPU:<index>".
  std::chrono::microseconds delay{0};       ///< How late each command starts,
  bool random_delay = false;                ///< or the most that it may be late.
  std::set<std::string> missing_kernels{};  ///< As Device::Options has them.
  bool stuck = false;                       ///< The queue accepts work and never runs it.
  size_t memory = 0;                        ///< Bytes; 0 is as much as the host has.
};

/// Adds a GPU with backend "test", whose kernels are the CPU's, run late. Throws InvalidArgument
/// when the index is not the next one.
void add_test_gpu(const TestDeviceOptions& options = {});

}  // namespace tandem::devices::test
