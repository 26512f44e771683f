/// A device's memory: blocks are kept when they are freed and handed out again, and every byte is
/// accounted to the device. Any thread may call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/memory_region.h"
#include "tandem/dtype.h"
#include "tandem/shape.h"

namespace tandem::devices {

struct AllocatorStatistics {
  size_t current = 0;              ///< Bytes of live buffers.
  size_t peak = 0;                 ///< The most that `current` has been.
  size_t reserved = 0;             ///< Bytes taken from the space, live or kept.
  size_t limit = 0;                ///< 0 is no limit.
  uint64_t space_allocations = 0;  ///< Times that the space was asked for a block.
};

class Allocator {
 public:
  struct Allocation;

  Allocator(std::string device_name, MemorySpace& space);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// Memory for `bytes`; `dtype` and `shape` are what errors call it.
  /// Throws ResourceExhausted naming the device, the figures and the largest live blocks.
  Allocation* allocate(size_t bytes, DType dtype, const Shape& shape);
  void free(Allocation* block) noexcept;

  /// What a request for `bytes` takes: sizes come in steps of about an eighth, so that a freed
  /// block fits the next of nearly its size.
  static size_t rounded(size_t bytes);

  /// The most bytes that may be live at once; 0 is no limit. With `reserve` they are taken from the
  /// space as one, at the first allocation, and nothing after that.
  void set_limit(size_t bytes, bool reserve = false);
  AllocatorStatistics info() const;
  void reset_peak();

 private:
  Allocation* take_free(size_t rounded);
  Allocation* take_new(size_t rounded);
  void release_kept();
  std::string exhausted(size_t bytes) const;

  const std::string device_name_;
  MemorySpace& space_;
  mutable std::mutex mutex_;
  AllocatorStatistics info_;
  bool reserve_ = false;
  std::unique_ptr<MemoryRegion> region_;             // All of the limit, where that is reserved.
  std::map<size_t, std::vector<Allocation*>> kept_;  // Free ones, by rounded size.
  Allocation* live_ = nullptr;                       // A list through the allocations.
};

struct Allocator::Allocation {
  void* data = nullptr;
  size_t bytes = 0;  ///< Rounded.
  DType dtype{};
  Shape shape;
  Allocation* previous = nullptr;
  Allocation* next = nullptr;
};

}  // namespace tandem::devices
