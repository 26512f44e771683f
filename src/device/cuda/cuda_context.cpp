#include "device/cuda/cuda_context.h"

#include <bit>

namespace tandem::devices::cuda {

CudaContext::CudaContext(const DriverApi& api, CUdevice device) : api_(api), device_(device) {}

CudaContext::~CudaContext() {
  if (context_.load() == nullptr) return;
  try {
    const Current current(*this);
    close_parts();
  } catch (...) {  // A lost device has nothing left to give back.
  }
  api_.cuDevicePrimaryCtxRelease_v2(device_);
}

CUcontext CudaContext::get() {
  if (context_.load() == nullptr) open();
  return context_;
}

/// It is the primary context, which other libraries of the process use, too.
void CudaContext::open() {
  const std::lock_guard lock(mutex_);
  if (context_.load() != nullptr) return;
  CUcontext context = nullptr;
  api_.check(api_.cuDevicePrimaryCtxRetain(&context, device_), "cuDevicePrimaryCtxRetain");
  CUcontext left = nullptr;
  try {
    api_.check(api_.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent");
    open_parts();
  } catch (...) {
    close_parts();
    api_.cuCtxPopCurrent_v2(&left);
    api_.cuDevicePrimaryCtxRelease_v2(device_);
    throw;
  }
  api_.cuCtxPopCurrent_v2(&left);
  context_ = context;
}

void CudaContext::open_parts() {
  api_.check(api_.cuStreamCreate(&memory_stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  api_.check(api_.cuEventCreate(&allocated_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  api_.check(api_.cuEventCreate(&used_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  int has_pools = 0;
  api_.check(
      api_.cuDeviceGetAttribute(&has_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device_),
      "cuDeviceGetAttribute");
  if (has_pools == 0) return;
  api_.check(api_.cuDeviceGetDefaultMemPool(&pool_, device_), "cuDeviceGetDefaultMemPool");
}

void CudaContext::close_parts() noexcept {
  if (used_ != nullptr) api_.cuEventDestroy_v2(used_);
  if (allocated_ != nullptr) api_.cuEventDestroy_v2(allocated_);
  if (memory_stream_ != nullptr) api_.cuStreamDestroy_v2(memory_stream_);
  used_ = allocated_ = nullptr;
  memory_stream_ = nullptr;
}

/// Waits until everything that was issued has run, and memory that was given back is free.
void CudaContext::settle() {
  for (const CUstream stream : streams_) api_.cuStreamSynchronize(stream);
  api_.cuStreamSynchronize(memory_stream_);
}

DeviceAllocation* CudaContext::allocate(size_t bytes) {
  const Current current(*this);
  const std::lock_guard lock(mutex_);
  CUdeviceptr address = 0;
  const auto attempt = [&] {
    return pool_ == nullptr ? api_.cuMemAlloc_v2(&address, bytes)
                            : api_.cuMemAllocAsync(&address, bytes, memory_stream_);
  };
  CUresult result = attempt();
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    settle();
    result = attempt();
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
  api_.check(result, pool_ == nullptr ? "cuMemAlloc" : "cuMemAllocAsync");
  if (pool_ != nullptr) {
    api_.check(api_.cuEventRecord(allocated_, memory_stream_), "cuEventRecord");
    for (const CUstream stream : streams_) {
      api_.check(api_.cuStreamWaitEvent(stream, allocated_, 0), "cuStreamWaitEvent");
    }
  }
  return new DeviceAllocation{address, this};
}

void CudaContext::release(DeviceAllocation* allocation) noexcept {
  const std::unique_ptr<DeviceAllocation> released(allocation);
  try {
    const Current current(*this);
    const std::lock_guard lock(mutex_);
    if (pool_ == nullptr) {
      settle();
      api_.cuMemFree_v2(released->address);
      return;
    }
    for (const CUstream stream : streams_) {
      api_.cuEventRecord(used_, stream);
      api_.cuStreamWaitEvent(memory_stream_, used_, 0);
    }
    api_.cuMemFreeAsync(released->address, memory_stream_);
  } catch (...) {  // A lost device has nothing left to give back.
  }
}

CUstream CudaContext::create_stream() {
  const Current current(*this);
  const std::lock_guard lock(mutex_);
  CUstream stream = nullptr;
  api_.check(api_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  streams_.push_back(stream);
  api_.check(api_.cuStreamWaitEvent(stream, allocated_, 0), "cuStreamWaitEvent");
  return stream;
}

CUstream CudaContext::create_capture_stream() {
  const Current current(*this);
  CUstream stream = nullptr;
  api_.check(api_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return stream;
}

void CudaContext::destroy_stream(CUstream stream) noexcept {
  try {
    const Current current(*this);
    const std::lock_guard lock(mutex_);
    std::erase(streams_, stream);
    api_.cuStreamDestroy_v2(stream);
  } catch (...) {  // A lost device has nothing left to give back.
  }
}

void CudaContext::serve(CUstream stream, CudaContext& other) {
  const CUcontext own = get();
  const Current current(other);
  const std::lock_guard lock(mutex_);
  api_.check(api_.cuStreamWaitEvent(stream, allocated_, 0), "cuStreamWaitEvent");
  open_to(other, own);
}

void CudaContext::open_to(CudaContext& other) {
  const CUcontext own = get();
  const Current current(other);
  const std::lock_guard lock(mutex_);
  open_to(other, own);
}

/// To be called with the lock held, and `other` as the current context.
void CudaContext::open_to(CudaContext& other, CUcontext own) {
  if (!serves_.insert(other.device_).second) return;
  int linked = 0;
  api_.check(api_.cuDeviceCanAccessPeer(&linked, other.device_, device_), "cuDeviceCanAccessPeer");
  if (linked == 0) return;  // The driver copies through the host.
  const CUresult enabled = api_.cuCtxEnablePeerAccess(own, 0);
  if (enabled != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
    api_.check(enabled, "cuCtxEnablePeerAccess");
  }
  if (pool_ == nullptr) return;
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, other.device_},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  api_.check(api_.cuMemPoolSetAccess(pool_, &access, 1), "cuMemPoolSetAccess");
}

PinnedMemory::~PinnedMemory() {
  if (kept_.empty()) return;  // A device that was never used is not opened now.
  try {
    const Current current(*context_);
    for (const auto& [bytes, blocks] : kept_) {
      for (char* const data : blocks) context_->api().cuMemFreeHost(data);
    }
  } catch (...) {  // A lost device has nothing left to give back.
  }
}

std::shared_ptr<char[]> PinnedMemory::take(size_t bytes) {
  constexpr size_t kLeast = 256;
  const size_t size = std::max(std::bit_ceil(bytes), kLeast);
  char* data = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (auto& kept = kept_[size]; !kept.empty()) {
      data = kept.back();
      kept.pop_back();
      kept_bytes_ -= size;
    }
  }
  if (data == nullptr) {
    const Current current(*context_);
    void* allocated = nullptr;
    context_->api().check(
        context_->api().cuMemHostAlloc(&allocated, size, CU_MEMHOSTALLOC_PORTABLE),
        "cuMemHostAlloc");
    data = static_cast<char*>(allocated);
  }
  return {data, [own = shared_from_this(), size](char* used) { own->give_back(used, size); }};
}

void PinnedMemory::give_back(char* data, size_t bytes) noexcept {
  constexpr size_t kMostKept = size_t{64} << 20;
  {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + bytes <= kMostKept) {
      kept_[bytes].push_back(data);
      kept_bytes_ += bytes;
      return;
    }
  }
  try {
    const Current current(*context_);
    context_->api().cuMemFreeHost(data);
  } catch (...) {  // A lost device has nothing left to give back.
  }
}

}  // namespace tandem::devices::cuda
