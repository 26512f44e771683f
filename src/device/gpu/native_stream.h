/// A stream's own handle, for libraries that issue commands themselves: a cl_command_queue, a
/// CUstream. A Stream that has one is a NativeStream, too.
#pragma once

namespace tandem::devices::gpu {

class NativeStream {
 public:
  virtual ~NativeStream() = default;
  virtual void* native() const = 0;
};

}  // namespace tandem::devices::gpu
