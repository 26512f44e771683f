// Devices, placement, logging.
#include "binding.h"

namespace tandem::python {
namespace {

class Device {
 public:
  explicit Device(std::optional<std::string> name) : name_(std::move(name)) {}
  void enter() {
    if (name_) {
      scope_.emplace(*name_);
    } else {
      scope_.emplace(nullptr);
    }
  }
  void exit() { scope_.reset(); }

 private:
  struct Held {
    explicit Held(std::string_view name) : scope(device(name)) {}
    explicit Held(std::nullptr_t none) : scope(device(none)) {}
    DeviceScope scope;
  };
  std::optional<std::string> name_;
  std::optional<Held> scope_;
};

}  // namespace

void bind_config(nb::module_& m) {
  m.def("profile_start", profile::start);
  // What ran how long, for people.
  m.def("profile_stop", [](const std::string& path) {
    return unlocked([&] { return profile::stop(path).str(); });
  });
  using namespace config;
  nb::class_<PhysicalDevice>(m, "PhysicalDevice", "A device of this machine.")
      .def_ro("name", &PhysicalDevice::name)
      .def_ro("device_type", &PhysicalDevice::type)
      .def_ro("backend", &PhysicalDevice::backend)
      .def_ro("threads", &PhysicalDevice::threads)
      .def_ro("memory", &PhysicalDevice::memory)
      .def_ro("hardware", &PhysicalDevice::hardware)
      .def("__eq__",
           [](const PhysicalDevice& a, nb::handle b) {
             return nb::isinstance<PhysicalDevice>(b) && a == *nb::inst_ptr<PhysicalDevice>(b);
           })
      .def("__hash__", [](const PhysicalDevice& d) { return std::hash<std::string>()(d.name); })
      .def("__repr__", [](const PhysicalDevice& d) {
        return "PhysicalDevice(name='" + d.name + "', device_type='" + d.type + "')";
      });
  nb::class_<LogicalDevice>(m, "LogicalDevice",
                            "A device that programs use: a physical one, or a part of it.")
      .def_ro("name", &LogicalDevice::name)
      .def_ro("device_type", &LogicalDevice::type)
      .def_ro("threads", &LogicalDevice::threads)
      .def_ro("memory_limit", &LogicalDevice::memory_limit)
      .def_ro("physical", &LogicalDevice::physical)
      .def("__eq__",
           [](const LogicalDevice& a, nb::handle b) {
             return nb::isinstance<LogicalDevice>(b) &&
                    a.name == nb::inst_ptr<LogicalDevice>(b)->name;
           })
      .def("__hash__", [](const LogicalDevice& d) { return std::hash<std::string>()(d.name); })
      .def("__repr__", [](const LogicalDevice& d) {
        return "LogicalDevice(name='" + d.name + "', device_type='" + d.type + "')";
      });
  m.def("list_physical_devices",
        [](const std::string& type) { return list_physical_devices(type); });
  m.def("list_logical_devices", [](const std::string& type) { return list_logical_devices(type); });
  m.def("set_visible_devices", [](const std::vector<PhysicalDevice>& devices,
                                  const std::string& type) { set_visible_devices(devices, type); });
  m.def("get_visible_devices", [](const std::string& type) { return get_visible_devices(type); });
  using Parts = std::vector<std::pair<int, size_t>>;
  m.def("set_logical_device_configuration", [](const PhysicalDevice& device, const Parts& parts) {
    std::vector<LogicalDeviceConfiguration> list;
    for (const auto& [threads, limit] : parts) list.push_back({threads, limit});
    set_logical_device_configuration(device, list);
  });
  m.def("get_logical_device_configuration", [](const PhysicalDevice& device) {
    Parts parts;
    for (const auto& part : get_logical_device_configuration(device)) {
      parts.emplace_back(part.threads, part.memory_limit);
    }
    return parts;
  });
  m.def("set_memory_growth", set_memory_growth);
  m.def("get_memory_growth", get_memory_growth);
  m.def("get_memory_info", [](const std::string& device) {
    const MemoryInfo info = get_memory_info(device);
    nb::dict result;
    result["current"] = info.current;
    result["peak"] = info.peak;
    return result;
  });
  m.def("reset_memory_stats", [](const std::string& device) { reset_memory_stats(device); });
  m.def("set_soft_device_placement", set_soft_device_placement);
  m.def("get_soft_device_placement", get_soft_device_placement);
  m.def("set_log_device_placement", set_log_device_placement);
  m.def("get_log_device_placement", get_log_device_placement);
  m.def("enable_op_determinism", enable_op_determinism);
  m.def("set_wait_deadline", [](double seconds) {
    set_wait_deadline(std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
  });
  m.def("placement_report", [] {
    nb::list list;
    for (const Placement& each : placement_report()) {
      list.append(nb::make_tuple(each.op, each.requested, each.device, each.reason));
    }
    return list;
  });
  m.def("clear_placement_report", clear_placement_report);
  m.def("copy_to_device", [](const Tensor& x, const std::string& device) {
    return unlocked([&] { return copy_to_device(x, device); });
  });
  nb::class_<Device>(m, "DeviceScope")
      .def(nb::init<std::optional<std::string>>(), "name"_a.none())
      .def("enter", &Device::enter)
      .def("exit", &Device::exit);
  m.def("device_name", [](const std::string& name) { return DeviceSpec::parse(name).str(); });
  m.def("current_device_scope", [] { return current_device_scope().str(); });
  m.def("set_log_level", [](int level) { logging::set_level(static_cast<logging::Level>(level)); });
  // The sink is called under the interpreter's lock: whoever logs has let go of it, or holds it.
  m.def(
      "set_log_sink",
      [](nb::object f) {
        if (f.is_none()) {
          logging::set_sink({});
          return;
        }
        logging::set_sink(
            [sink = Callable(std::move(f))](logging::Level level, std::string_view text) {
              sink.call([&](const nb::object& write) {
                write(static_cast<int>(level), nb::str(text.data(), text.size()));
              });
            });
      },
      "f"_a.none());
}

}  // namespace tandem::python
