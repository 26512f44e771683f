#include "device/memory_region.h"

#include <iterator>

namespace tandem::devices {

std::unique_ptr<MemoryRegion> MemoryRegion::of(MemorySpace& space, size_t bytes) {
  void* start = space.allocate(bytes);
  if (start == nullptr) return nullptr;
  return std::unique_ptr<MemoryRegion>(new MemoryRegion(space, static_cast<char*>(start), bytes));
}

MemoryRegion::MemoryRegion(MemorySpace& space, char* start, size_t bytes)
    : space_(space), start_(start), bytes_(bytes), free_{{0, bytes}} {}

MemoryRegion::~MemoryRegion() { space_.deallocate(start_, bytes_); }

void* MemoryRegion::take(size_t bytes) {
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second >= bytes && (best == free_.end() || it->second < best->second)) best = it;
  }
  if (best == free_.end()) return nullptr;
  const auto [offset, size] = *best;
  free_.erase(best);
  if (size > bytes) free_.emplace(offset + bytes, size - bytes);
  return start_ + offset;
}

void MemoryRegion::give_back(void* data, size_t bytes) {
  auto part = free_.emplace(static_cast<char*>(data) - start_, bytes).first;
  const auto next = std::next(part);
  if (next != free_.end() && part->first + part->second == next->first) {
    part->second += next->second;
    free_.erase(next);
  }
  if (part == free_.begin()) return;
  const auto previous = std::prev(part);
  if (previous->first + previous->second == part->first) {
    previous->second += part->second;
    free_.erase(part);
  }
}

}  // namespace tandem::devices
