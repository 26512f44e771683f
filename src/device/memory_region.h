/// One piece of a memory space, taken at once and handed out in parts. Free neighbours join. One
/// thread at a time.
#pragma once

#include <map>
#include <memory>

#include "device/memory_space.h"

namespace tandem::devices {

class MemoryRegion {
 public:
  /// Null when the space has not so much.
  static std::unique_ptr<MemoryRegion> of(MemorySpace& space, size_t bytes);
  ~MemoryRegion();
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  /// `bytes` is a multiple of 64. The smallest free part that holds it; nullptr when none does.
  void* take(size_t bytes);
  void give_back(void* data, size_t bytes);

 private:
  MemoryRegion(MemorySpace& space, char* start, size_t bytes);

  MemorySpace& space_;
  char* const start_;
  const size_t bytes_;
  std::map<size_t, size_t> free_;  // Offset to size.
};

}  // namespace tandem::devices
