/// What the process runs on, and how strictly. The devices are set up before the first of them is
/// used: a tensor, an op or a variable uses one, listing them does not, and afterwards a change of
/// devices is FailedPrecondition. Everything here may be called from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/export.h"

namespace tandem::config {

// ---- Devices ----

/// What the machine has.
struct PhysicalDevice {
  std::string name;  ///< "/physical_device:GPU:0"
  std::string type;  ///< "CPU", "GPU"
  std::string backend;
  int threads = 0;    ///< Cores that this process may use; 0 where the backend has none.
  size_t memory = 0;  ///< Bytes; 0 where the backend does not say.
  // What drivers say of GPUs.
  std::string hardware{};  ///< "NVIDIA GeForce RTX 4090"
  std::string vendor{};
  std::string driver{};
  int units = 0;  ///< Groups of threads that it runs at the same time.

  bool operator==(const PhysicalDevice&) const = default;
};

/// What ops run on: a physical device, or a part of one.
struct LogicalDevice {
  std::string name;  ///< "/device:CPU:0"
  std::string type;  ///< "CPU", "GPU"
  std::string backend;
  int threads = 0;          ///< The threads of its team; 0 where the backend has none.
  size_t memory_limit = 0;  ///< Bytes that may be live at once; 0 is no limit.
  std::string physical;     ///< The name of the device that it is, or is a part of.
};

/// How a logical device is cut from a physical one.
struct LogicalDeviceConfiguration {
  int threads = 0;          ///< The threads of a CPU; 0: an even share of the cores, at least one.
  size_t memory_limit = 0;  ///< Bytes that may be live at once; 0 is no limit.
};
using LogicalCpu = LogicalDeviceConfiguration;

/// All physical devices, or those of one type ("CPU", "GPU"), in no use of any and with no memory
/// taken.
TANDEM_API std::vector<PhysicalDevice> list_physical_devices(std::string_view type = {});

/// All logical devices, or those of one type, GPUs before CPUs: the order in which default
/// placement prefers them. They are numbered by type over the visible physical devices. Touches
/// none of them.
TANDEM_API std::vector<LogicalDevice> list_logical_devices(std::string_view type = {});

/// A device that was found and is none of the above.
struct UnusableDevice {
  std::string hardware;
  std::string backend;
  std::string reason;
};
TANDEM_API std::vector<UnusableDevice> list_unusable_devices();

/// How bytes get from one GPU to another, both by their names as logical devices.
struct DeviceLink {
  std::string from;
  std::string to;
  /// "NVLink"; "PCIe", where one reads the other's memory by it; "driver", where their driver
  /// copies by a way of its own; "same device", of which both are parts; "host", where bytes pass
  /// through the host's memory.
  std::string kind;
};

/// The links between all pairs of visible GPUs. Touches none of them.
TANDEM_API std::vector<DeviceLink> list_device_links();

/// A library that a backend finds at run time.
struct BackendLibrary {
  std::string backend;  ///< "cuda"
  std::string name;     ///< "cuBLAS"
  std::string found;    ///< "libcublas.so.13, version 13.0"; empty where it is missing.
  std::string missing;  ///< What was looked for, and what was found instead.
};

/// The libraries of the backends whose devices there are. Loads them, which may take seconds.
TANDEM_API std::vector<BackendLibrary> list_libraries();

/// Devices of OpenCL that are CPUs (PoCL) count as GPUs, too. Off unless the environment variable
/// TANDEM_OPENCL is `cpu`: they are good for trying out and testing what GPUs do, and slower than
/// the CPU itself. Throws FailedPrecondition after a device has been used.
TANDEM_API void set_opencl_cpus(bool enabled);

/// Only `devices` are used, of one type or of all: `set_visible_devices({}, "GPU")` hides every
/// GPU. Throws NotFound for a device that does not exist, InvalidArgument for one of another type
/// than `type` and where no CPU would be left, since the host's values live there;
/// FailedPrecondition after a device has been used.
TANDEM_API void set_visible_devices(const std::vector<PhysicalDevice>& devices,
                                    std::string_view type = {});
TANDEM_API std::vector<PhysicalDevice> get_visible_devices(std::string_view type = {});

/// Cuts `device` into logical devices; one, with all threads and no limit, unless set. Logical CPUs
/// share the host's memory, parts of a GPU do not share theirs. Past its limit a device throws
/// ResourceExhausted with the device, the bytes requested, in use and at the peak, and the five
/// largest tensors. Throws NotFound for a device that does not exist, InvalidArgument for an empty
/// list, a negative number of threads, threads of a GPU, or a missing limit where memory growth is
/// off; FailedPrecondition after a device has been used.
TANDEM_API void set_logical_device_configuration(
    const PhysicalDevice& device, const std::vector<LogicalDeviceConfiguration>& parts);
TANDEM_API std::vector<LogicalDeviceConfiguration> get_logical_device_configuration(
    const PhysicalDevice& device);

/// The same for the CPU: `set_logical_cpus({{.threads = 1}, {.threads = 1}})` makes CPU:0 and
/// CPU:1.
TANDEM_API void set_logical_cpus(const std::vector<LogicalCpu>& cpus);

// ---- Memory ----

/// With growth, as unless set, a device takes memory as it is needed. Without it each logical
/// device takes its whole limit at its first tensor, and nothing later. Throws NotFound for a
/// device that does not exist, InvalidArgument where growth is turned off and a part of `device`
/// has no limit, FailedPrecondition after a device has been used.
TANDEM_API void set_memory_growth(const PhysicalDevice& device, bool growth);
TANDEM_API bool get_memory_growth(const PhysicalDevice& device);

struct MemoryInfo {
  size_t current = 0;   ///< Bytes of live tensors and variables.
  size_t peak = 0;      ///< The most that `current` has been.
  size_t reserved = 0;  ///< Bytes taken from the machine, live or kept for the next tensor.
  size_t limit = 0;     ///< 0 is no limit.
};

/// The memory of the logical device that `device` names, as in "GPU:0"; is no use of it. Throws
/// InvalidArgument for a malformed name, NotFound for a device that does not exist.
TANDEM_API MemoryInfo get_memory_info(std::string_view device);

/// The peak starts again from what is live. Throws as get_memory_info does.
TANDEM_API void reset_memory_stats(std::string_view device);

// ---- Placement; may be changed at any time ----

/// Soft placement is off unless set: a scope that names a device that does not exist, or one
/// without a kernel for the op, is NotFound. On: the op runs on the first CPU, and that is logged
/// as a warning, once for each op and reason. A function falls back as a whole, where the CPU
/// reaches its variables, and keeps the place that it was traced for.
TANDEM_API void set_soft_device_placement(bool enabled);
TANDEM_API bool get_soft_device_placement();

/// When it is on, each op is logged with the device asked for, the device it runs on and the
/// reason, once for each distinct signature, and kept for tandem::placement_report(). Off unless
/// set.
TANDEM_API void set_log_device_placement(bool enabled);
TANDEM_API bool get_log_device_placement();

/// What happens to an op's or a function's input that lies in another memory space.
enum class DevicePolicy {
  silent,  ///< It is copied; so it is unless set.
  warn,    ///< It is copied, with a warning once for each op and pair of devices.
  forbid,  ///< FailedPrecondition, naming the op, the input and both devices.
};

/// A scalar on the host is always copied: it is a number in the program. So is what a variable is
/// created with, and what tandem::copy_to_device is given.
TANDEM_API void set_device_policy(DevicePolicy policy);
TANDEM_API DevicePolicy get_device_policy();

// ---- Determinism, waiting ----

/// Guarantees that the same program on the same devices, threads and kind of machine gives the same
/// bits in each run. Every kernel keeps that promise by itself: work is cut by shapes and numbers
/// of threads, sums have a fixed order. What could break it is the order in which several threads
/// of the program draw random numbers, so from now on only the first thread that draws may: a
/// random op, or a function with one, on another is FailedPrecondition. Cannot be turned off.
TANDEM_API void enable_op_determinism();
TANDEM_API bool is_op_determinism_enabled();

/// Products and convolutions of float32 on NVIDIA's GPUs may round their operands to
/// TensorFloat-32, which has 10 bits of mantissa, and are then several times as fast. Off unless
/// set: results would no longer be those of other devices. May be changed at any time.
TANDEM_API void enable_tensor_float_32_execution(bool enabled);
TANDEM_API bool tensor_float_32_execution_enabled();

/// Whether what a compiled function asks of a GPU is captured and replayed: from its third run on,
/// the host gives the device all commands of a step in one call (a CUDA graph, an OpenCL command
/// buffer). Results are the same bit for bit. Functions with branches or loops, which read values
/// on the host, are not captured. May be changed at any time.
enum class CapturedSteps {
  automatic,  ///< On CUDA devices; so it is unless set.
  off,
  on,  ///< Wherever the device can, with OpenCL's extension cl_khr_command_buffer too.
};
TANDEM_API void set_captured_steps(CapturedSteps when);
TANDEM_API CapturedSteps get_captured_steps();

/// How long a thread waits for another before the wait is an error. 120 seconds unless set.
TANDEM_API void set_wait_deadline(std::chrono::nanoseconds deadline);
TANDEM_API std::chrono::nanoseconds wait_deadline();

// ---- For tests and demonstrations ----

/// A device that behaves as a GPU and needs none: the host cannot read its memory, its work runs
/// later, on a thread of its own, and variables exist for float types and int64 (counters of steps)
/// only. It computes with the CPU's kernels.
struct TestDevice {
  std::chrono::microseconds delay{0};  ///< How late each piece of work starts.
  size_t memory = 0;                   ///< Bytes; 0 is as much as the host has.
  /// What has no kernel: "relu" for all dtypes, "relu int32" for one.
  std::vector<std::string> missing_kernels{};
};

/// Adds the next GPU, with backend "test". Throws FailedPrecondition after a device has been used.
TANDEM_API void add_test_device(const TestDevice& device = {});

}  // namespace tandem::config
