/// Commands that a queue was given once and is given again as one: CUDA's graphs, OpenCL's command
/// buffers. The host then says in one call what took one for each command.
#pragma once

#include <functional>
#include <memory>

#include "device/logical_device.h"

namespace tandem::devices {

/// Whether programs on the device are captured, as config::set_captured_steps says.
bool captures_steps(const Device& device);

/// What was captured, for its queue alone.
using CapturedWork = std::shared_ptr<const void>;

/// Runs `work` on this thread. The commands that it issues on `queue` are kept, with their
/// addresses, and not run. Null where the device cannot keep them: then nothing has been done.
CapturedWork capture(Queue& queue, const std::function<void()>& work);

/// Issues them as one command.
void replay(Queue& queue, const CapturedWork& captured);

}  // namespace tandem::devices
