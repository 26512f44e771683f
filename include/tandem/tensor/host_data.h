/// A tensor's value in the host's memory, for those who hand it on to other libraries: NumPy's
/// arrays, files, windows. Any thread may call.
#pragma once

#include <memory>

#include "tandem/tensor.h"

namespace tandem {

/// The elements, one after another in row-major order. They stay where they are, and as they are,
/// as long as `owner` is held by somebody, whatever becomes of the tensor or of the variable that
/// it was read from.
struct HostData {
  const void* data = nullptr;
  std::shared_ptr<const void> owner;
};

/// Waits for the value. It is not copied where the host can read it already, unless it is a
/// snapshot of a variable, which is copied once. Throws FailedPrecondition while tracing.
TANDEM_API HostData host_data(const Tensor& tensor);

}  // namespace tandem
