/// GPUs whose values a library of their vendor sums: NVIDIA's NCCL. The library has an order of its
/// own, so the bits of a sum may be others than those of collective/tree.h, but they are the same
/// on all devices.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/logical_device.h"
#include "tandem/dtype.h"

namespace tandem::collective {

/// What is known of a library for the values of some devices before it is used.
struct LibrarySums {
  bool is_usable = false;
  bool is_linked = false;  ///< Each two of the devices reach each other without the host.
  /// "NVLink", the links between the devices; or why the library is not to be used. Empty where
  /// there is no library for such devices.
  std::string text{};
};

/// Loads the library, where the devices are all of its vendor. Opens none of them.
LibrarySums find_library_sums(const std::vector<devices::DevicePtr>& devices);

class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;

  /// A value that is summed over the devices: where each of them has its own, and where each gets
  /// the sum, which may be the same place.
  struct Operand {
    DType dtype = DType::float32;
    size_t count = 0;
    std::span<void* const> from{};
    std::span<void* const> to{};
  };

  /// Sums on the devices' exchange queues. Each waits there for its event of `after`, and `done`
  /// become the events at which the sums are there. Throws Unavailable where the library, or a
  /// device, does not work any more.
  virtual void all_reduce(std::span<const Operand> operands, std::span<const devices::Event> after,
                          std::span<devices::Event> done) = 0;

  /// Ends sums that wait for a device that does not come: what the devices have of them is bad.
  /// There are no more sums in this group.
  virtual void abort() noexcept = 0;
  virtual bool is_aborted() const = 0;
};

/// The group of these devices, in this order, for which find_library_sums() has found a library.
/// All who ask for the same devices get the same one.
std::shared_ptr<DeviceGroup> open_device_group(const std::vector<devices::DevicePtr>& devices);

}  // namespace tandem::collective
