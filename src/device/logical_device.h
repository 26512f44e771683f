/// One logical device: a memory space, an allocator with statistics, queues, a backend, and on a
/// CPU a number of threads. Devices are found without being touched; the first use fixes the
/// configuration, and a device's memory and queue are opened when they are first needed.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "device/allocator.h"
#include "device/queue.h"
#include "tandem/device.h"

namespace tandem::devices {

class Device {
 public:
  struct Options {
    DeviceSpec spec;      ///< Type and index set.
    std::string backend;  ///< "cpu", "opencl", "test"
    std::string kernels;  ///< The folder of its kernels; the backend's own unless set.
    int threads = 1;
    std::shared_ptr<MemorySpace> own_space;  ///< Null: host memory.
    std::unique_ptr<Queue> queue;
    std::unique_ptr<Queue> input_queue{};     ///< Null: `queue` takes its commands, too.
    std::unique_ptr<Queue> exchange_queue{};  ///< The same.
    /// What has none here although the folder has one: "relu" for all dtypes, "relu int32" for one.
    std::set<std::string> missing_kernels{};
    size_t memory_limit = 0;     ///< Bytes that may be live at once; 0 is no limit.
    bool reserve_limit = false;  ///< The whole limit is taken at the first allocation.
  };
  explicit Device(Options options);

  const DeviceSpec& spec() const { return spec_; }
  const std::string& name() const { return name_; }  ///< "/device:CPU:0"
  const std::string& backend() const { return backend_; }
  const std::string& kernels() const { return kernels_; }
  bool lacks_kernel(const std::string& op, DType dtype) const;
  int threads() const { return threads_; }
  /// The host's own threads do its work, in teams: what is asked of it has been done when the call
  /// returns. Other devices have commands put on their queue.
  bool works_on_threads() const { return queue_->immediate(); }
  MemorySpace& space() const { return space_; }
  Allocator& allocator() { return allocator_; }
  Queue& queue() const { return *queue_; }

  /// Where a program's arguments are copied to the device while it computes,
  Queue& input_queue() const { return input_queue_ ? *input_queue_ : *queue_; }
  /// and where replicas' values meet meanwhile. What uses memory here and on queue() waits for the
  /// other's events. Memory that is given back goes to commands of queue(): whoever gives it back
  /// has queue() behind its commands on the other queues, or holds it there.
  Queue& exchange_queue() const { return exchange_queue_ ? *exchange_queue_ : *queue_; }

  /// Waits until all of its queues have run what they were asked. Throws as Event::wait.
  void finish(std::chrono::nanoseconds deadline) const;

  uint64_t id() const { return id_; }  ///< Unique in the process's life.

 private:
  const DeviceSpec spec_;
  const std::string name_;
  const std::string backend_;
  const std::string kernels_;
  const std::set<std::string> missing_kernels_;
  const int threads_;
  const std::shared_ptr<MemorySpace> own_space_;
  MemorySpace& space_;
  Allocator allocator_;
  const std::unique_ptr<Queue> queue_;
  const std::unique_ptr<Queue> input_queue_;
  const std::unique_ptr<Queue> exchange_queue_;
  const uint64_t id_;
};

using DevicePtr = std::shared_ptr<Device>;

/// All logical devices: GPUs before CPUs, as default placement prefers them. Does not count as a
/// use.
std::vector<DevicePtr> all_devices();

/// The one device that `spec` names; what it leaves open is taken from the order of all_devices().
/// Throws NotFound listing the devices that exist. Counts as a use.
DevicePtr find_device(const DeviceSpec& spec);

/// The first CPU. Counts as a use.
const DevicePtr& host_device();

/// all_devices() as default placement goes through them. Counts as a use; cheap on the second call.
const std::vector<DevicePtr>& placement_order();

/// "/device:GPU:0, /device:CPU:0", for messages.
std::string device_names();

/// Forgets every device, setting and report, as at the start of a process. For tests: devices and
/// tensors that are still held stay alive, and must not be mixed with new ones.
void reset_devices();

}  // namespace tandem::devices
