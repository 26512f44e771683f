/// What the process runs on: the logical devices, and how long anyone may wait. Set it before the
/// first device is used; afterwards a change of devices is FailedPrecondition.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/export.h"

namespace tandem::config {

/// One logical device.
struct LogicalDevice {
  std::string name;  ///< "/device:CPU:0"
  std::string type;  ///< "CPU", "GPU"
  std::string backend;
  int threads = 0;  ///< The threads of its team; 0 where the backend has none.
};

/// How a logical CPU is cut from the machine's.
struct LogicalCpu {
  int threads = 0;  ///< 0: an even share of the cores, at least one.
};

/// Splits the CPU: `set_logical_cpus({{.threads = 1}, {.threads = 1}})` makes CPU:0 and CPU:1.
/// Throws InvalidArgument for an empty list or a negative number of threads.
TANDEM_API void set_logical_cpus(const std::vector<LogicalCpu>& cpus);

/// All logical devices, or those of one type ("CPU", "GPU"). Touches none of them.
TANDEM_API std::vector<LogicalDevice> list_logical_devices(std::string_view type = {});

/// How long a thread waits for another before the wait is an error. 120 seconds unless set.
TANDEM_API void set_wait_deadline(std::chrono::nanoseconds deadline);
TANDEM_API std::chrono::nanoseconds wait_deadline();

}  // namespace tandem::config
