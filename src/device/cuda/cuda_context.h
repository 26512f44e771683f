/// The context of a device, opened when the device is first used, and the order of its memory.
///
/// Memory is allocated and given back on a stream of its own, without the host waiting for
/// anything:
///
///   allocate   memory stream: | allocate |--event--> every other stream waits for it
///   release    every other stream: --event--> memory stream: | wait | free |
///
/// so that what is allocated serves every command that is issued later, and what is given back has
/// served every command that was issued before. Devices without pools of memory allocate and free
/// at once, behind all that they have been given to do.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "device/cuda/cuda_api.h"

namespace tandem::devices::cuda {

class CudaContext;

/// What gpu::Memory points at.
struct DeviceAllocation {
  CUdeviceptr address = 0;
  CudaContext* context = nullptr;
};

class CudaContext {
 public:
  CudaContext(const DriverApi& api, CUdevice device);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const DriverApi& api() const { return api_; }
  CUdevice device() const { return device_; }

  /// Opens it.
  CUcontext get();

  /// Null when there is no more.
  DeviceAllocation* allocate(size_t bytes);
  void release(DeviceAllocation* allocation) noexcept;

  CUstream create_stream();

  /// One that commands are captured on, and that runs none: the order of memory does not touch it.
  CUstream create_capture_stream();
  void destroy_stream(CUstream stream) noexcept;

  /// Memory that was allocated here so far may be used by commands that `stream`, of another
  /// device, gets from now on. Where the two are linked, they are copied without the host.
  void serve(CUstream stream, CudaContext& other);

  /// Commands of `other` read and write this device's memory, where the two are linked.
  void open_to(CudaContext& other);

 private:
  void open();
  void open_parts();
  void close_parts() noexcept;
  void settle();
  void open_to(CudaContext& other, CUcontext own);

  const DriverApi& api_;
  const CUdevice device_;
  std::atomic<CUcontext> context_{nullptr};
  std::mutex mutex_;             // Guards what follows.
  CUmemoryPool pool_ = nullptr;  // Null where the device has none.
  CUstream memory_stream_ = nullptr;
  CUevent allocated_ = nullptr;  // Behind the last allocation,
  CUevent used_ = nullptr;       // and behind the last use of what is given back.
  std::vector<CUstream> streams_;
  std::set<CUdevice> serves_;  // The devices that read and write this one's memory.
};

/// The context is the calling thread's current one, as the driver's functions want it; then again
/// the one that was before.
class Current {
 public:
  explicit Current(CudaContext& context) : api_(context.api()) {
    api_.check(api_.cuCtxPushCurrent_v2(context.get()), "cuCtxPushCurrent");
  }
  ~Current() {
    CUcontext left = nullptr;
    api_.cuCtxPopCurrent_v2(&left);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const DriverApi& api_;
};

/// Memory of the host that the device reads and writes by itself (pinned). To get some takes long,
/// so what is given back is kept for the next who asks.
class PinnedMemory : public std::enable_shared_from_this<PinnedMemory> {
 public:
  explicit PinnedMemory(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::shared_ptr<char[]> take(size_t bytes);

 private:
  void give_back(char* data, size_t bytes) noexcept;

  const std::shared_ptr<CudaContext> context_;
  std::mutex mutex_;  // Guards what follows.
  std::map<size_t, std::vector<char*>> kept_;
  size_t kept_bytes_ = 0;
};

}  // namespace tandem::devices::cuda
