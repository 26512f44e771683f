/// What is addressable together. Logical CPUs share one space; each GPU has its own. Copies happen
/// only between spaces, and are commands of a queue.
#pragma once

#include <cstddef>
#include <string>

namespace tandem::devices {

class MemorySpace {
 public:
  virtual ~MemorySpace() = default;

  virtual const std::string& name() const = 0;

  /// True when the host may follow a pointer into this space. Elsewhere following one is a fault on
  /// the spot.
  virtual bool host_readable() const = 0;

  /// At least 64-byte aligned; nullptr when there is no more. What commands that were issued before
  /// the call do with memory that was given back before it, is over when commands that are issued
  /// after it begin.
  virtual void* allocate(size_t bytes) = 0;
  virtual void deallocate(void* data, size_t bytes) noexcept = 0;

  /// Nobody needs what is there any more; the allocator keeps the memory for others.
  virtual void forget(void*, size_t) noexcept {}
};

/// The memory that every CPU of the process addresses.
MemorySpace& host_memory();

}  // namespace tandem::devices
