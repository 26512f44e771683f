/// The memory of a GPU. Its addresses are ranges that only the device's commands can follow
/// (device/address_map.h); a command asks where they lie when it is issued.
#pragma once

#include <atomic>
#include <string>

#include "device/address_map.h"
#include "device/gpu/driver.h"
#include "device/memory_space.h"

namespace tandem::devices::gpu {

class GpuMemory final : public MemorySpace {
 public:
  GpuMemory(std::string device, DriverPtr driver);

  const std::string& name() const override { return device_; }
  bool host_readable() const override { return false; }

  /// Throws ResourceExhausted for more than the device allocates at once.
  void* allocate(size_t bytes) override;
  void deallocate(void* data, size_t bytes) noexcept override;

  /// Throws InvalidArgument for an address that is not of this memory.
  Location locate(const void* address) const;

  Driver& driver() const { return *driver_; }

 private:
  const std::string device_;
  const DriverPtr driver_;
  AddressMap<Memory> addresses_;
  std::atomic<uint64_t> generation_;  // Another one whenever an address may mean something else.
};

}  // namespace tandem::devices::gpu
