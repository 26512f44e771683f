#include "device/gpu/gpu_memory.h"

#include <fmt/format.h>

#include "tandem/error.h"

namespace tandem::devices::gpu {

void* GpuMemory::allocate(size_t bytes) {
  const size_t most = driver_->description().most_at_once;
  if (most != 0 && bytes > most) {
    throw ResourceExhausted(
        fmt::format("{}: {} bytes requested at once; the largest allocation that {} makes is {}",
                    device_, bytes, driver_->description().name, most));
  }
  const Memory memory = driver_->allocate(bytes);
  if (memory == nullptr) return nullptr;
  void* const data = addresses_.add(bytes, memory);
  if (data == nullptr) driver_->release(memory);
  return data;
}

void GpuMemory::deallocate(void* data, size_t) noexcept {
  driver_->release(addresses_.remove(data));
}

Location GpuMemory::locate(const void* address) const {
  if (const auto place = addresses_.find(address)) return {place->buffer, place->offset};
  throw InvalidArgument(fmt::format("{}: {} is no address of its memory", device_, address));
}

}  // namespace tandem::devices::gpu
