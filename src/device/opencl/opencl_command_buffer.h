/// Commands that OpenCL keeps to run them again: the extension cl_khr_command_buffer.
#pragma once

#include <memory>

#include "device/opencl/opencl_api.h"

namespace tandem::devices::opencl {

/// The functions of the extension.
struct CommandBufferApi {
  clCreateCommandBufferKHR_fn create = nullptr;
  clReleaseCommandBufferKHR_fn release = nullptr;
  clFinalizeCommandBufferKHR_fn finalize = nullptr;
  clEnqueueCommandBufferKHR_fn enqueue = nullptr;
  clCommandNDRangeKernelKHR_fn kernel = nullptr;
  clCommandCopyBufferKHR_fn copy = nullptr;
  clCommandFillBufferKHR_fn fill = nullptr;
};

/// Null where the device has no such extension, has it with other arguments than ours, or runs a
/// buffer only once at a time.
std::unique_ptr<const CommandBufferApi> find_command_buffers(cl_device_id device);

/// A buffer that takes commands until it is finalized, and then runs them as often as it is
/// enqueued, in order.
class CommandBuffer {
 public:
  CommandBuffer(const CommandBufferApi& functions, cl_command_queue queue);
  ~CommandBuffer() { functions_.release(buffer_); }
  CommandBuffer(const CommandBuffer&) = delete;
  CommandBuffer& operator=(const CommandBuffer&) = delete;

  /// The kernel with its arguments as they are now.
  void add_kernel(cl_kernel kernel, size_t items, size_t group);
  void add_copy(cl_mem to, size_t to_offset, cl_mem from, size_t from_offset, size_t bytes);
  void add_fill(cl_mem to, size_t offset, uint8_t value, size_t bytes);
  void finalize();

  /// On a queue of the device that it was made with.
  void enqueue(cl_command_queue queue) const;

 private:
  /// What comes next waits for what came last.
  template <class... Arguments>
  void add(const char* name, cl_int (*function)(Arguments...), auto... arguments);

  const CommandBufferApi& functions_;
  cl_command_buffer_khr buffer_ = nullptr;
  cl_sync_point_khr last_ = 0;
  cl_uint count_ = 0;
};

}  // namespace tandem::devices::opencl
