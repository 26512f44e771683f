/// What is addressable together. Logical CPUs share one space; each GPU has its own. Copies happen
/// only between spaces.
#pragma once

#include <cstddef>
#include <string>

namespace tandem::devices {

class MemorySpace {
 public:
  virtual ~MemorySpace() = default;

  virtual const std::string& name() const = 0;

  /// True when the host may follow a pointer into this space.
  virtual bool host_readable() const = 0;

  /// At least 64-byte aligned; nullptr when there is no more.
  virtual void* allocate(size_t bytes) = 0;
  virtual void deallocate(void* data, size_t bytes) noexcept = 0;

  /// Raw copies between this space and the host, and inside this space. They run where they are
  /// called: put them on the device's queue to order them with its work.
  virtual void copy_from_host(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_within(void* to, const void* from, size_t bytes) = 0;
};

/// Copies between any two spaces; by way of the host where neither is the host's.
void copy_bytes(MemorySpace& to_space, void* to, MemorySpace& from_space, const void* from,
                size_t bytes);

/// The memory that every CPU of the process addresses.
MemorySpace& host_memory();

}  // namespace tandem::devices
