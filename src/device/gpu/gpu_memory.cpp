#include "device/gpu/gpu_memory.h"

#include <fmt/format.h>

#include <array>

#include "tandem/error.h"

namespace tandem::devices::gpu {
namespace {

/// No two memories ever have the same.
uint64_t next_generation() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

/// The ranges that a thread has used last: most operands of a program lie in a few.
struct Recent {
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    Memory memory = nullptr;
  };
  uint64_t generation = 0;
  std::array<Range, 4> ranges{};
  size_t next = 0;
};
thread_local Recent recent;

}  // namespace

GpuMemory::GpuMemory(std::string device, DriverPtr driver)
    : device_(std::move(device)), driver_(std::move(driver)), generation_(next_generation()) {}

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
  generation_ = next_generation();
  driver_->release(addresses_.remove(data));
}

Location GpuMemory::locate(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const uint64_t generation = generation_.load(std::memory_order_acquire);
  if (recent.generation != generation) recent = {.generation = generation};
  for (const Recent::Range& range : recent.ranges) {
    if (range.begin <= at && at < range.end) return {range.memory, at - range.begin};
  }
  const auto place = addresses_.find(address);
  if (!place) {
    throw InvalidArgument(fmt::format("{}: {} is no address of its memory", device_, address));
  }
  const uintptr_t begin = at - place->offset;
  recent.ranges[recent.next++ % recent.ranges.size()] = {begin, begin + place->size, place->buffer};
  return {place->buffer, place->offset};
}

}  // namespace tandem::devices::gpu
