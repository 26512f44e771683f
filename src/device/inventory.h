/// The devices of the process: what the machine has, which of it is visible, how it is cut into
/// logical devices. Logical devices are made when somebody asks for them and fixed on first use.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "device/logical_device.h"
#include "tandem/config.h"

namespace tandem::devices {

/// What a backend brings.
struct Physical {
  config::PhysicalDevice description;  ///< The name is given by the inventory.
  /// What a logical device that is cut from it is made of. The inventory sets the name and limits.
  /// All devices are made together, so nothing is opened here: memory and queue open themselves
  /// when they are first used.
  std::function<Device::Options(const DeviceSpec&, const config::LogicalDeviceConfiguration&)> open;
};

/// What backends look for.
struct Search {
  std::optional<bool> opencl_cpus{};  ///< See config::set_opencl_cpus(); as the environment says.
  /// Whose devices a backend before has found. Another that finds devices of everybody leaves
  /// theirs out, as they would be the same ones.
  std::set<std::string> found_vendors{};
};

/// What a backend has found.
struct Found {
  std::vector<Physical> usable{};
  std::vector<config::UnusableDevice> unusable{};
};

class Inventory {
 public:
  static Inventory& instance();

  /// Numbered by type. Throws FailedPrecondition when a device is in use.
  void add(Physical physical);

  std::vector<config::PhysicalDevice> physical(std::string_view type, bool only_visible);
  std::vector<config::LogicalDevice> logical(std::string_view type);
  std::vector<config::UnusableDevice> unusable();

  // The contracts are those of the functions of tandem::config of the same names.
  void set_visible(const std::vector<config::PhysicalDevice>& devices, std::string_view type);
  void set_configurations(const std::string& name,
                          std::vector<config::LogicalDeviceConfiguration> configurations);
  std::vector<config::LogicalDeviceConfiguration> configurations(const std::string& name);
  void set_growth(const std::string& name, bool growth);
  bool growth(const std::string& name);
  void set_opencl_cpus(bool enabled);

  /// The logical devices, made where they are not yet; as a use or not.
  std::vector<DevicePtr> devices(bool use);

  /// The first that matches, or null.
  DevicePtr find(const DeviceSpec& spec, bool use);

  /// See device/task.h.
  void set_task(const std::string& job, int task);
  /// A device's name within the cluster: every part set.
  DeviceSpec full_name(const DeviceSpec& spec) const;
  /// The name that users are told: with job and task where this process is in a cluster.
  DeviceSpec given_name(const DeviceSpec& spec) const;
  /// False where the job or the task of a name is another one's.
  bool is_own(const DeviceSpec& spec) const;

  void reset();
  uint64_t generation() const { return generation_; }

 private:
  struct Entry {
    Physical device;
    bool visible = true;
    bool growth = true;
    std::vector<config::LogicalDeviceConfiguration> configurations{{}};
  };
  /// A logical device that is or could be made.
  struct Logical {
    DeviceSpec spec;
    const Entry* entry;
    config::LogicalDeviceConfiguration configuration;
  };

  Inventory();
  std::unique_lock<std::mutex> discovered();
  void discover();
  void add_entry(Physical physical);
  Entry& entry(const std::string& name);
  std::vector<Logical> logical_devices() const;
  const std::vector<DevicePtr>& create_devices();
  void check_unused(std::string_view what) const;
  void forget_devices() { devices_.clear(); }

  std::mutex mutex_;
  std::vector<Entry> entries_;  // The CPU first.
  std::vector<DevicePtr> devices_;
  std::vector<config::UnusableDevice> unusable_;
  Search search_;
  bool discovered_ = false;  // The backends have been asked what there is.
  bool in_use_ = false;
  std::atomic<uint64_t> generation_{1};

  mutable std::mutex task_mutex_;  // Guards the two below.
  std::string job_;
  int task_ = 0;
};

}  // namespace tandem::devices
