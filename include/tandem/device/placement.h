/// Where ops ran, why there, and what was copied between devices. An op runs where the thread's
/// device scope says; one that reads or changes a variable runs where that is, unless the scope's
/// device has it too; everything else on the first device, GPUs before CPUs, with a kernel for its
/// dtypes. Any thread may call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/tensor.h"

namespace tandem {

struct Placement {
  std::string op;         ///< "matmul(float32[2,3], float32[3,2])", "variable 'w' float32[2]"
  std::string requested;  ///< What the scope asked for; empty outside of any.
  std::string device;     ///< Where it runs: "/device:GPU:0"
  std::string reason;

  bool operator==(const Placement&) const = default;
};

/// What was logged since config::set_log_device_placement was set, and every fallback of soft
/// placement, in order, each once. At most 4096 are kept; that there are more is logged.
TANDEM_API std::vector<Placement> placement_report();

/// Forgets them: the next call of each op is reported again.
TANDEM_API void clear_placement_report();

/// The copies from one device to another, whatever they were for: inputs of ops, values of
/// variables, tensors that the host read. Devices that share memory copy nothing.
struct CopyCount {
  std::string from;
  std::string to;
  uint64_t copies = 0;
  uint64_t bytes = 0;

  bool operator==(const CopyCount&) const = default;
};

/// One for each pair of devices that copied since the start or the last reset, in order of names.
TANDEM_API std::vector<CopyCount> copy_report();
TANDEM_API void reset_copy_report();

/// The value on the device that `device` names, which no policy forbids; tapes see the copy. Throws
/// InvalidArgument for a malformed name, NotFound for a device that does not exist, Unimplemented
/// while a function is traced on another device.
TANDEM_API Tensor copy_to_device(const Tensor& tensor, std::string_view device);

}  // namespace tandem
