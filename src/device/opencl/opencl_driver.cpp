#include "device/opencl/opencl_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "device/gpu/native_stream.h"
#include "device/opencl/opencl_api.h"
#include "device/opencl/opencl_command_buffer.h"
#include "tandem/error.h"

namespace tandem::devices::opencl {
namespace {

/// Subnormal numbers count as zero, as on CPUs (core/compute_scope.h).
constexpr const char* kBuildOptions = "-cl-std=CL1.2 -cl-denorms-are-zero -w";

/// An object of OpenCL, released when nobody holds it any more.
template <class Object>
class Handle {
 public:
  using Release = cl_int(CL_API_CALL*)(Object);

  Handle(Object object, Release release) : object_(object), release_(release) {}
  ~Handle() {
    if (object_ != nullptr) release_(object_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  Object get() const { return object_; }

  /// Takes another one in its place.
  void set(Object object) {
    if (object_ != nullptr) release_(object_);
    object_ = object;
  }

 private:
  Object object_;
  const Release release_;
};

cl_mem memory_of(gpu::Memory memory) { return static_cast<cl_mem>(memory); }

class ClEvent final : public gpu::Mark, public gpu::TimedCommand {
 public:
  explicit ClEvent(cl_event event) : event_(event, api()->clReleaseEvent) {}

  bool is_reached() const override {
    cl_int status = CL_QUEUED;
    check(api()->clGetEventInfo(get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                                nullptr),
          "clGetEventInfo");
    if (status >= 0) return status == CL_COMPLETE;
    throw Unavailable(fmt::format("a command failed on the device: {}", status_name(status)));
  }

  gpu::Timing timing() const override {
    return {time(CL_PROFILING_COMMAND_START), time(CL_PROFILING_COMMAND_END)};
  }

  cl_event get() const { return event_.get(); }
  void set(cl_event event) { event_.set(event); }

 private:
  uint64_t time(cl_profiling_info which) const {
    cl_ulong time = 0;
    check(api()->clGetEventProfilingInfo(get(), which, sizeof time, &time, nullptr),
          "clGetEventProfilingInfo");
    return time;
  }

  Handle<cl_event> event_;
};

/// Counts the buffers that were ever given back: a new one may have the handle of an old one.
std::atomic<uint64_t> released_buffers{0};

/// OpenCL keeps a kernel's arguments in the kernel: it is locked from the first to the launch, and
/// those that are as they were need not be set again.
class ClKernel final : public gpu::Kernel {
 public:
  /// Throws NotFound.
  ClKernel(cl_program program, std::string name)
      : program_(program), name_(std::move(name)), kernel_(create(), api()->clReleaseKernel) {}
  cl_kernel get() const { return kernel_.get(); }

  /// The same kernel, whose arguments nobody else sets.
  std::unique_ptr<ClKernel> copy() const { return std::make_unique<ClKernel>(program_, name_); }
  std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }

  /// To be called with the lock held.
  void set(std::span<const gpu::KernelArgument> arguments) const {
    const uint64_t released = released_buffers;
    if (released != released_ || set_.size() != arguments.size()) set_.clear();
    released_ = released;
    const size_t known = set_.size();
    set_.resize(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      const gpu::KernelArgument& argument = arguments[i];
      const uint64_t value =
          argument.memory != nullptr ? reinterpret_cast<uint64_t>(argument.memory) : argument.bits;
      if (known != 0 && set_[i] == value) continue;
      set_[i] = ~value;  // Until it is set.
      check(api()->clSetKernelArg(get(), static_cast<cl_uint>(i), sizeof value, &value),
            "clSetKernelArg");
      set_[i] = value;
    }
  }

 private:
  cl_kernel create() const {
    cl_int status = CL_SUCCESS;
    const cl_kernel kernel = api()->clCreateKernel(program_, name_.c_str(), &status);
    if (status == CL_INVALID_KERNEL_NAME) {
      throw NotFound(fmt::format("clCreateKernel: the program has no kernel '{}'", name_));
    }
    check(status, "clCreateKernel");
    return kernel;
  }

  const cl_program program_;  // The kernel holds it.
  const std::string name_;
  const Handle<cl_kernel> kernel_;
  mutable std::mutex mutex_;
  mutable std::vector<uint64_t> set_;  // The arguments as they are set; empty: none is known.
  mutable uint64_t released_ = 0;
};

class ClModule final : public gpu::Module {
 public:
  ClModule(cl_program program, bool has_binary)
      : program_(program, api()->clReleaseProgram), has_binary_(has_binary) {}

  std::shared_ptr<gpu::Kernel> kernel(const std::string& name) override {
    return std::make_shared<ClKernel>(program_.get(), name);
  }

  /// The program was made for one device.
  std::string binary() const override {
    size_t size = 0;
    if (!has_binary_ || api()->clGetProgramInfo(program_.get(), CL_PROGRAM_BINARY_SIZES,
                                                sizeof size, &size, nullptr) != CL_SUCCESS) {
      return {};
    }
    std::string binary(size, '\0');
    auto* data = reinterpret_cast<unsigned char*>(binary.data());
    const cl_int status =
        api()->clGetProgramInfo(program_.get(), CL_PROGRAM_BINARIES, sizeof data, &data, nullptr);
    return status == CL_SUCCESS ? binary : std::string();
  }

 private:
  const Handle<cl_program> program_;
  const bool has_binary_;
};

class ClStream final : public gpu::Stream, public gpu::NativeStream {
 public:
  explicit ClStream(cl_command_queue queue) : queue_(queue, api()->clReleaseCommandQueue) {}

  void launch(const gpu::Kernel& kernel, const gpu::Grid& grid,
              std::span<const gpu::KernelArgument> arguments) override {
    const auto& locked = static_cast<const ClKernel&>(kernel);
    const auto lock = locked.lock();
    locked.set(arguments);
    const auto local = static_cast<size_t>(grid.group_size);
    const size_t global = static_cast<size_t>(grid.groups) * local;
    check(api()->clEnqueueNDRangeKernel(queue_.get(), locked.get(), 1, nullptr, &global, &local, 0,
                                        nullptr, timed_event()),
          "clEnqueueNDRangeKernel");
    keep_timing();
  }

  void write(const gpu::Location& to, const void* from, size_t bytes) override {
    check(api()->clEnqueueWriteBuffer(queue_.get(), memory_of(to.memory), CL_FALSE, to.offset,
                                      bytes, from, 0, nullptr, timed_event()),
          "clEnqueueWriteBuffer");
    keep_timing();
  }

  void read(void* to, const gpu::Location& from, size_t bytes) override {
    check(api()->clEnqueueReadBuffer(queue_.get(), memory_of(from.memory), CL_FALSE, from.offset,
                                     bytes, to, 0, nullptr, timed_event()),
          "clEnqueueReadBuffer");
    keep_timing();
  }

  void copy(const gpu::Location& to, const gpu::Location& from, size_t bytes) override {
    check(api()->clEnqueueCopyBuffer(queue_.get(), memory_of(from.memory), memory_of(to.memory),
                                     from.offset, to.offset, bytes, 0, nullptr, timed_event()),
          "clEnqueueCopyBuffer");
    keep_timing();
  }

  void fill(const gpu::Location& to, uint8_t value, size_t bytes) override {
    check(api()->clEnqueueFillBuffer(queue_.get(), memory_of(to.memory), &value, 1, to.offset,
                                     bytes, 0, nullptr, timed_event()),
          "clEnqueueFillBuffer");
    keep_timing();
  }

  std::shared_ptr<gpu::Mark> mark(std::shared_ptr<gpu::Mark> used) override {
    cl_event event = nullptr;
    check(api()->clEnqueueMarkerWithWaitList(queue_.get(), 0, nullptr, &event),
          "clEnqueueMarkerWithWaitList");
    if (used) {
      static_cast<ClEvent&>(*used).set(event);
    } else {
      used = std::make_shared<ClEvent>(event);
    }
    check(api()->clFlush(queue_.get()), "clFlush");
    return used;
  }

  void wait(const gpu::Mark& mark) override {
    const cl_event event = static_cast<const ClEvent&>(mark).get();
    check(api()->clEnqueueBarrierWithWaitList(queue_.get(), 1, &event, nullptr),
          "clEnqueueBarrierWithWaitList");
  }

  std::shared_ptr<gpu::TimedCommand> last_timing() override { return std::move(last_); }
  void* native() const override { return queue_.get(); }
  void set_timed(bool timed) override { timed_ = timed; }

 private:
  cl_event* timed_event() {
    event_ = nullptr;
    return timed_ ? &event_ : nullptr;
  }
  void keep_timing() {
    if (event_ != nullptr) last_ = std::make_shared<ClEvent>(event_);
    event_ = nullptr;
  }

  const Handle<cl_command_queue> queue_;
  bool timed_ = false;
  cl_event event_ = nullptr;
  std::shared_ptr<ClEvent> last_;
};

class ClCapturedCommands final : public gpu::CapturedCommands {
 public:
  ClCapturedCommands(const CommandBufferApi& functions, cl_command_queue queue)
      : buffer(functions, queue) {}
  void run(gpu::Stream& stream) const override {
    buffer.enqueue(static_cast<cl_command_queue>(static_cast<ClStream&>(stream).native()));
  }

  std::vector<std::unique_ptr<ClKernel>> kernels;
  CommandBuffer buffer;
};

/// Keeps commands in a command buffer, which has no copies from and to the host.
class ClCapture final : public gpu::StreamCapture, private gpu::Stream {
 public:
  ClCapture(const CommandBufferApi& functions, cl_command_queue queue)
      : queue_(queue, api()->clReleaseCommandQueue),
        captured_(std::make_shared<ClCapturedCommands>(functions, queue)) {}

  gpu::Stream& stream() override { return *this; }
  std::shared_ptr<const gpu::CapturedCommands> finish() override {
    captured_->buffer.finalize();
    return captured_;
  }

 private:
  void launch(const gpu::Kernel& kernel, const gpu::Grid& grid,
              std::span<const gpu::KernelArgument> arguments) override {
    // A command buffer should keep a kernel's arguments as they are now; PoCL 3.1 takes those that
    // the kernel has when the buffer runs.
    auto own = static_cast<const ClKernel&>(kernel).copy();
    own->set(arguments);
    const auto local = static_cast<size_t>(grid.group_size);
    captured_->buffer.add_kernel(own->get(), static_cast<size_t>(grid.groups) * local, local);
    captured_->kernels.push_back(std::move(own));
  }
  void copy(const gpu::Location& to, const gpu::Location& from, size_t bytes) override {
    captured_->buffer.add_copy(memory_of(to.memory), to.offset, memory_of(from.memory), from.offset,
                               bytes);
  }
  void fill(const gpu::Location& to, uint8_t value, size_t bytes) override {
    captured_->buffer.add_fill(memory_of(to.memory), to.offset, value, bytes);
  }
  void write(const gpu::Location&, const void*, size_t) override { refuse("a copy from the host"); }
  void read(void*, const gpu::Location&, size_t) override { refuse("a copy to the host"); }
  std::shared_ptr<gpu::Mark> mark(std::shared_ptr<gpu::Mark>) override { refuse("a mark"); }
  void wait(const gpu::Mark&) override { refuse("a wait"); }
  std::shared_ptr<gpu::TimedCommand> last_timing() override { return nullptr; }
  void set_timed(bool) override {}

  [[noreturn]] static void refuse(const char* what) {
    throw Unimplemented(fmt::format("{} cannot be in a command buffer", what));
  }

  const Handle<cl_command_queue> queue_;
  const std::shared_ptr<ClCapturedCommands> captured_;
};

/// The context of a platform's devices. It is never given back: commands of other threads may still
/// use it when the process ends.
class Context {
 public:
  explicit Context(std::vector<cl_device_id> devices) : devices_(std::move(devices)) {}

  cl_context get() {
    const std::lock_guard lock(mutex_);
    if (context_ == nullptr) {
      cl_int status = CL_SUCCESS;
      context_ = api()->clCreateContext(nullptr, static_cast<cl_uint>(devices_.size()),
                                        devices_.data(), nullptr, nullptr, &status);
      check(status, "clCreateContext");
    }
    return context_;
  }

 private:
  const std::vector<cl_device_id> devices_;
  std::mutex mutex_;
  cl_context context_ = nullptr;
};

std::string text_of(cl_device_id device, cl_device_info what) {
  size_t size = 0;
  check(api()->clGetDeviceInfo(device, what, 0, nullptr, &size), "clGetDeviceInfo");
  std::string text(size, '\0');
  check(api()->clGetDeviceInfo(device, what, size, text.data(), nullptr), "clGetDeviceInfo");
  return text.substr(0, text.find('\0'));
}

template <class T>
T number_of(cl_device_id device, cl_device_info what) {
  T number{};
  check(api()->clGetDeviceInfo(device, what, sizeof number, &number, nullptr), "clGetDeviceInfo");
  return number;
}

gpu::Description describe(cl_device_id device) {
  gpu::Description found;
  found.name = text_of(device, CL_DEVICE_NAME);
  found.vendor = text_of(device, CL_DEVICE_VENDOR);
  found.driver =
      fmt::format("{}, {}", text_of(device, CL_DEVICE_VERSION), text_of(device, CL_DRIVER_VERSION));
  found.memory = number_of<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE);
  found.most_at_once = number_of<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  found.local_memory = number_of<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE);
  found.units = static_cast<int>(number_of<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS));
  found.is_cpu = (number_of<cl_device_type>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  found.shares_host_memory = number_of<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_TRUE;
  found.unusable = why_unusable(
      {.extensions = text_of(device, CL_DEVICE_EXTENSIONS),
       .has_compiler = number_of<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE) == CL_TRUE,
       .group_size = number_of<size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE)});
  return found;
}

class OpenClDriver final : public gpu::Driver {
 public:
  OpenClDriver(cl_device_id device, std::shared_ptr<Context> context)
      : device_(device), context_(std::move(context)), description_(describe(device)) {}

  const gpu::Description& description() const override { return description_; }
  bool is_permanent() const override { return true; }
  std::string_view dialect() const override { return "opencl"; }
  std::string compiler() const override { return kBuildOptions; }

  gpu::Memory allocate(size_t bytes) override {
    cl_int status = CL_SUCCESS;
    const cl_mem memory =
        api()->clCreateBuffer(context_->get(), CL_MEM_READ_WRITE, bytes, nullptr, &status);
    return status == CL_SUCCESS ? memory : nullptr;
  }

  /// The driver itself waits until no command uses it.
  void release(gpu::Memory memory) noexcept override {
    ++released_buffers;
    api()->clReleaseMemObject(memory_of(memory));
  }

  std::shared_ptr<gpu::Stream> create_stream() override {
    return std::make_shared<ClStream>(create_queue());
  }

  std::unique_ptr<gpu::StreamCapture> capture() override {
    std::call_once(looked_for_buffers_, [&] { buffers_ = find_command_buffers(device_); });
    return buffers_ ? std::make_unique<ClCapture>(*buffers_, create_queue()) : nullptr;
  }

  std::shared_ptr<gpu::Module> compile(const std::string& text) override {
    const char* data = text.c_str();
    cl_int status = CL_SUCCESS;
    const cl_program program =
        api()->clCreateProgramWithSource(context_->get(), 1, &data, nullptr, &status);
    check(status, "clCreateProgramWithSource");
    auto module = std::make_shared<ClModule>(program, !is_pocl());
    status = api()->clBuildProgram(program, 1, &device_, kBuildOptions, nullptr, nullptr);
    if (status != CL_SUCCESS) {
      throw InvalidArgument(fmt::format("a kernel does not compile: {}\n{}", status_name(status),
                                        build_log(program)));
    }
    return module;
  }

  std::shared_ptr<gpu::Module> load(const std::string& binary) override {
    const auto* data = reinterpret_cast<const unsigned char*>(binary.data());
    const size_t size = binary.size();
    cl_int loaded = CL_SUCCESS;
    cl_int status = CL_SUCCESS;
    const cl_program program = api()->clCreateProgramWithBinary(context_->get(), 1, &device_, &size,
                                                                &data, &loaded, &status);
    if (status != CL_SUCCESS) return nullptr;
    auto module = std::make_shared<ClModule>(program, !is_pocl());
    status = api()->clBuildProgram(program, 1, &device_, kBuildOptions, nullptr, nullptr);
    return status == CL_SUCCESS && loaded == CL_SUCCESS ? module : nullptr;
  }

  std::shared_ptr<char[]> staging(size_t bytes) override {
    return std::make_shared_for_overwrite<char[]>(bytes);
  }

  bool reaches(const gpu::Driver& other) const override {
    const auto* own = dynamic_cast<const OpenClDriver*>(&other);
    return own != nullptr && own->context_ == context_;
  }

 private:
  cl_command_queue create_queue() {
    cl_int status = CL_SUCCESS;
    const cl_command_queue queue =
        api()->clCreateCommandQueue(context_->get(), device_, CL_QUEUE_PROFILING_ENABLE, &status);
    check(status, "clCreateCommandQueue");
    return queue;
  }

  /// PoCL has a cache of its own. Asked for a program's binary it compiles all of it once more.
  bool is_pocl() const { return description_.driver.find("PoCL") != std::string::npos; }

  std::string build_log(cl_program program) const {
    size_t size = 0;
    api()->clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
    std::string log(size, '\0');
    api()->clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
    return log.substr(0, log.find('\0'));
  }

  const cl_device_id device_;
  const std::shared_ptr<Context> context_;
  const gpu::Description description_;
  std::once_flag looked_for_buffers_;
  std::unique_ptr<const CommandBufferApi> buffers_;  // Null where the device has none.
};

}  // namespace

std::string why_unusable(const Requirements& device) {
  if (device.group_size < 256) return "its groups have fewer than 256 items";
  if (!device.has_compiler) return "its driver has no compiler";
  if (device.extensions.find("cl_khr_fp64") == std::string::npos) {
    return "it does not compute in float64 (cl_khr_fp64), which metrics and steps need";
  }
  return {};
}

namespace {

std::vector<gpu::DriverPtr> make_drivers(const DriverOptions& options) {
  std::vector<gpu::DriverPtr> drivers;
  cl_uint count = 0;
  if (api() == nullptr || api()->clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return drivers;
  std::vector<cl_platform_id> platforms(count);
  check(api()->clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  for (const cl_platform_id platform : platforms) {
    if (api()->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) {
      continue;
    }
    std::vector<cl_device_id> devices(count);
    check(api()->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr),
          "clGetDeviceIDs");
    const auto shared = std::make_shared<Context>(devices);
    for (const cl_device_id device : devices) {
      const auto own = std::make_shared<Context>(std::vector{device});
      drivers.push_back(
          std::make_shared<OpenClDriver>(device, options.shared_contexts ? shared : own));
    }
  }
  std::ranges::stable_partition(
      drivers, [](const gpu::DriverPtr& driver) { return !driver->description().is_cpu; });
  return drivers;
}

}  // namespace

std::vector<gpu::DriverPtr> find_drivers(const DriverOptions& options) {
  static std::mutex mutex;
  static auto* const known = new std::map<bool, std::vector<gpu::DriverPtr>>;
  const std::lock_guard lock(mutex);
  auto& drivers = (*known)[options.shared_contexts];
  if (drivers.empty()) drivers = make_drivers(options);
  return drivers;
}

}  // namespace tandem::devices::opencl
