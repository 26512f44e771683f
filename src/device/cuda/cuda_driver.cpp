#include "device/cuda/cuda_driver.h"

#include <fmt/format.h>

#include <limits>
#include <mutex>
#include <utility>

#include "device/cuda/cuda_context.h"
#include "device/cuda/cuda_cublas.h"
#include "device/cuda/cuda_cudnn.h"
#include "device/cuda/cuda_nvrtc.h"
#include "tandem/error.h"

namespace tandem::devices::cuda {
namespace {

using ContextPtr = std::shared_ptr<CudaContext>;

DeviceAllocation& allocation_of(gpu::Memory memory) {
  return *static_cast<DeviceAllocation*>(memory);
}

class CudaEvent final : public gpu::Mark {
 public:
  CudaEvent(ContextPtr context, CUstream stream, unsigned flags) : context_(std::move(context)) {
    const DriverApi& api = context_->api();
    const Current current(*context_);
    api.check(api.cuEventCreate(&event_, flags), "cuEventCreate");
    const CUresult result = api.cuEventRecord(event_, stream);
    if (result == CUDA_SUCCESS) return;
    api.cuEventDestroy_v2(event_);
    api.check(result, "cuEventRecord");
  }
  ~CudaEvent() override {
    try {
      const Current current(*context_);
      context_->api().cuEventDestroy_v2(event_);
    } catch (...) {  // A lost device has nothing left to give back.
    }
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool is_reached() const override {
    const Current current(*context_);
    const CUresult result = context_->api().cuEventQuery(event_);
    if (result == CUDA_SUCCESS) return true;
    if (result == CUDA_ERROR_NOT_READY) return false;
    throw Unavailable(
        fmt::format("a command failed on the device: {}", context_->api().name_of(result)));
  }

  /// The milliseconds from `begin` to this.
  float since(const CudaEvent& begin) const {
    float time = 0;
    const Current current(*context_);
    context_->api().check(context_->api().cuEventElapsedTime(&time, begin.event_, event_),
                          "cuEventElapsedTime");
    return time;
  }

  /// From now on it stands behind the stream's commands so far.
  void record(CUstream stream) {
    const Current current(*context_);
    context_->api().check(context_->api().cuEventRecord(event_, stream), "cuEventRecord");
  }

  CUevent get() const { return event_; }

 private:
  const ContextPtr context_;
  CUevent event_ = nullptr;
};
using CudaEventPtr = std::shared_ptr<CudaEvent>;

/// Events tell only how long after each other they were, as float: the clock goes on from event to
/// event, so that it stays exact.
class EventClock {
 public:
  explicit EventClock(CudaEventPtr begin) : last_(std::move(begin)) {}

  uint64_t time_of(const CudaEventPtr& event) {
    constexpr double kNanoseconds = 1e6;
    constexpr float kLong = 100;
    const std::lock_guard lock(mutex_);
    const float since = event->since(*last_);
    const auto time = last_time_ + static_cast<int64_t>(since * kNanoseconds);
    if (since > kLong) {
      last_ = event;
      last_time_ = time;
    }
    return static_cast<uint64_t>(time);
  }

 private:
  std::mutex mutex_;
  CudaEventPtr last_;
  int64_t last_time_ = 0;
};

class CudaTimedCommand final : public gpu::TimedCommand {
 public:
  CudaTimedCommand(std::shared_ptr<EventClock> clock, CudaEventPtr begin, CudaEventPtr end)
      : clock_(std::move(clock)), begin_(std::move(begin)), end_(std::move(end)) {}

  gpu::Timing timing() const override {
    const uint64_t begin = clock_->time_of(begin_);
    return {begin, clock_->time_of(end_)};
  }

 private:
  const std::shared_ptr<EventClock> clock_;
  const CudaEventPtr begin_;
  const CudaEventPtr end_;
};

/// The module is unloaded when nobody holds it or one of its kernels any more.
class LoadedModule {
 public:
  /// Throws InvalidArgument with what the driver says about `image`.
  LoadedModule(ContextPtr context, const std::string& image) : context_(std::move(context)) {
    char log[4096] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    const Current current(*context_);
    const CUresult result =
        context_->api().cuModuleLoadDataEx(&module_, image.c_str(), 2, options, values);
    if (result == CUDA_SUCCESS) return;
    throw InvalidArgument(fmt::format("the driver does not load what was compiled: {}\n{}",
                                      context_->api().name_of(result), log));
  }
  ~LoadedModule() {
    try {
      const Current current(*context_);
      context_->api().cuModuleUnload(module_);
    } catch (...) {  // A lost device has nothing left to give back.
    }
  }
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  CUfunction function(const std::string& name) const {
    const Current current(*context_);
    CUfunction function = nullptr;
    const CUresult result = context_->api().cuModuleGetFunction(&function, module_, name.c_str());
    if (result == CUDA_ERROR_NOT_FOUND) {
      throw NotFound(fmt::format("cuModuleGetFunction: the program has no kernel '{}'", name));
    }
    context_->api().check(result, "cuModuleGetFunction");
    return function;
  }

 private:
  const ContextPtr context_;
  CUmodule module_ = nullptr;
};

class CudaKernel final : public gpu::Kernel {
 public:
  CudaKernel(std::shared_ptr<LoadedModule> module, const std::string& name)
      : module_(std::move(module)), function_(module_->function(name)) {}
  CUfunction get() const { return function_; }

 private:
  const std::shared_ptr<LoadedModule> module_;
  const CUfunction function_;
};

class CudaModule final : public gpu::Module {
 public:
  CudaModule(ContextPtr context, std::string image)
      : module_(std::make_shared<LoadedModule>(std::move(context), image)),
        image_(std::move(image)) {}

  std::shared_ptr<gpu::Kernel> kernel(const std::string& name) override {
    return std::make_shared<CudaKernel>(module_, name);
  }
  std::string binary() const override { return image_; }

 private:
  const std::shared_ptr<LoadedModule> module_;
  const std::string image_;
};

class CudaStream final : public gpu::Stream, public LibraryStream {
 public:
  /// Takes over `stream`, of the context.
  CudaStream(ContextPtr context, CUstream stream) : context_(std::move(context)), stream_(stream) {}
  ~CudaStream() override { context_->destroy_stream(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void launch(const gpu::Kernel& kernel, const gpu::Grid& grid,
              std::span<const gpu::KernelArgument> arguments) override {
    constexpr size_t kMost = 512;  // 4096 bytes, the most that every device takes.
    if (arguments.size() > kMost || grid.groups > std::numeric_limits<int>::max()) {
      throw InvalidArgument(fmt::format("cuLaunchKernel: {} arguments and {} groups are too many",
                                        arguments.size(), grid.groups));
    }
    uint64_t values[kMost];
    void* pointers[kMost];
    for (size_t i = 0; i < arguments.size(); ++i) {
      const gpu::KernelArgument& argument = arguments[i];
      values[i] =
          argument.memory == nullptr ? argument.bits : allocation_of(argument.memory).address;
      pointers[i] = &values[i];
    }
    issue("cuLaunchKernel", [&](const DriverApi& api) {
      return api.cuLaunchKernel(
          static_cast<const CudaKernel&>(kernel).get(), static_cast<unsigned>(grid.groups), 1, 1,
          static_cast<unsigned>(grid.group_size), 1, 1, 0, stream_, pointers, nullptr);
    });
  }

  void write(const gpu::Location& to, const void* from, size_t bytes) override {
    issue("cuMemcpyHtoDAsync", [&](const DriverApi& api) {
      return api.cuMemcpyHtoDAsync_v2(address_of(to), from, bytes, stream_);
    });
  }

  void read(void* to, const gpu::Location& from, size_t bytes) override {
    issue("cuMemcpyDtoHAsync", [&](const DriverApi& api) {
      return api.cuMemcpyDtoHAsync_v2(to, address_of(from), bytes, stream_);
    });
  }

  void copy(const gpu::Location& to, const gpu::Location& from, size_t bytes) override {
    CudaContext& to_context = *allocation_of(to.memory).context;
    CudaContext& from_context = *allocation_of(from.memory).context;
    if (&to_context == &from_context && &to_context == context_.get()) {
      return issue("cuMemcpyDtoDAsync", [&](const DriverApi& api) {
        return api.cuMemcpyDtoDAsync_v2(address_of(to), address_of(from), bytes, stream_);
      });
    }
    for (CudaContext* const context : {&to_context, &from_context}) {
      if (context != context_.get()) context->serve(stream_, *context_);
    }
    issue("cuMemcpyPeerAsync", [&](const DriverApi& api) {
      return api.cuMemcpyPeerAsync(address_of(to), to_context.get(), address_of(from),
                                   from_context.get(), bytes, stream_);
    });
  }

  void fill(const gpu::Location& to, uint8_t value, size_t bytes) override {
    issue("cuMemsetD8Async", [&](const DriverApi& api) {
      return api.cuMemsetD8Async(address_of(to), value, bytes, stream_);
    });
  }

  std::shared_ptr<gpu::Mark> mark(std::shared_ptr<gpu::Mark> used) override {
    if (!used) return record(CU_EVENT_DISABLE_TIMING);
    static_cast<CudaEvent&>(*used).record(stream_);
    return used;
  }

  void wait(const gpu::Mark& mark) override {
    const Current current(*context_);
    context_->api().check(
        context_->api().cuStreamWaitEvent(stream_, static_cast<const CudaEvent&>(mark).get(), 0),
        "cuStreamWaitEvent");
  }

  std::shared_ptr<gpu::TimedCommand> last_timing() override { return std::move(last_); }
  void set_timed(bool timed) override { timed_ = timed; }

  CUstream get() const override { return stream_; }
  void issue(const std::function<void()>& call) override {
    issue("", [&](const DriverApi&) {
      call();
      return CUDA_SUCCESS;
    });
  }

 private:
  CudaEventPtr record(unsigned flags) {
    return std::make_shared<CudaEvent>(context_, stream_, flags);
  }

  template <class Call>
  void issue(const char* function, const Call& call) {
    CudaEventPtr begin;
    if (timed_) {
      begin = record(CU_EVENT_DEFAULT);
      if (!clock_) clock_ = std::make_shared<EventClock>(begin);
    }
    {
      const Current current(*context_);
      context_->api().check(call(context_->api()), function);
    }
    if (begin) {
      last_ = std::make_shared<CudaTimedCommand>(clock_, begin, record(CU_EVENT_DEFAULT));
    }
  }

  const ContextPtr context_;
  const CUstream stream_;
  bool timed_ = false;
  std::shared_ptr<EventClock> clock_;
  std::shared_ptr<CudaTimedCommand> last_;
};

/// A graph of CUDA that can be launched.
class CudaGraph final : public gpu::CapturedCommands {
 public:
  CudaGraph(ContextPtr context, CUgraph graph) : context_(std::move(context)) {
    context_->api().check(context_->api().cuGraphInstantiateWithFlags(&graph_, graph, 0),
                          "cuGraphInstantiate");
  }
  ~CudaGraph() override {
    try {
      const Current current(*context_);
      context_->api().cuGraphExecDestroy(graph_);
    } catch (...) {  // A lost device has nothing left to give back.
    }
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void run(gpu::Stream& stream) const override {
    LibraryStream& own = library_stream(stream);
    own.issue([&] {
      context_->api().check(context_->api().cuGraphLaunch(graph_, own.get()), "cuGraphLaunch");
    });
  }

 private:
  const ContextPtr context_;
  CUgraphExec graph_ = nullptr;
};

/// Captures on a stream that is there for nothing else. Other threads go on meanwhile.
class CudaCapture final : public gpu::StreamCapture {
 public:
  CudaCapture(ContextPtr context, std::shared_ptr<CudaStream> stream,
              std::unique_lock<std::mutex> lock)
      : context_(std::move(context)), stream_(std::move(stream)), lock_(std::move(lock)) {
    const Current current(*context_);
    const DriverApi& api = context_->api();
    api.check(api.cuStreamBeginCapture_v2(stream_->get(), CU_STREAM_CAPTURE_MODE_RELAXED),
              "cuStreamBeginCapture");
  }
  ~CudaCapture() override {
    if (is_finished_) return;
    try {
      const Current current(*context_);
      CUgraph graph = nullptr;
      context_->api().cuStreamEndCapture(stream_->get(), &graph);
      if (graph != nullptr) context_->api().cuGraphDestroy(graph);
    } catch (...) {  // A lost device has nothing left to give back.
    }
  }
  CudaCapture(const CudaCapture&) = delete;
  CudaCapture& operator=(const CudaCapture&) = delete;

  gpu::Stream& stream() override { return *stream_; }

  std::shared_ptr<const gpu::CapturedCommands> finish() override {
    const Current current(*context_);
    const DriverApi& api = context_->api();
    CUgraph graph = nullptr;
    is_finished_ = true;
    api.check(api.cuStreamEndCapture(stream_->get(), &graph), "cuStreamEndCapture");
    const auto destroy = [&api](CUgraph captured) { api.cuGraphDestroy(captured); };
    const std::unique_ptr<CUgraph_st, decltype(destroy)> held(graph, destroy);
    return std::make_shared<CudaGraph>(context_, graph);
  }

 private:
  const ContextPtr context_;
  const std::shared_ptr<CudaStream> stream_;
  const std::unique_lock<std::mutex> lock_;
  bool is_finished_ = false;
};

/// What the driver tells of a device before it is opened.
struct Facts {
  gpu::Description description;
  int capability = 0;  ///< 86 for 8.6.
  int driver = 0;      ///< 12040 for CUDA 12.4.
};

Facts facts_of(const DriverApi& api, CUdevice device, int driver) {
  const auto number = [&](CUdevice_attribute attribute) {
    int value = 0;
    api.check(api.cuDeviceGetAttribute(&value, attribute, device), "cuDeviceGetAttribute");
    return value;
  };
  Facts facts;
  facts.driver = driver;
  facts.capability = 10 * number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                     number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  gpu::Description& found = facts.description;
  char name[256] = "";
  api.check(api.cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  found.name = name;
  found.vendor = "NVIDIA Corporation";
  found.driver = fmt::format("CUDA {}, compute capability {}.{}", version_text(driver),
                             facts.capability / 10, facts.capability % 10);
  api.check(api.cuDeviceTotalMem_v2(&found.memory, device), "cuDeviceTotalMem");
  found.local_memory = static_cast<size_t>(number(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  found.units = number(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  found.shares_host_memory = number(CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0;
  if (number(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_PROHIBITED) {
    found.unusable = "its compute mode is 'prohibited'; nvidia-smi --compute-mode changes it";
  }
  if (number(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) < 256) {
    found.unusable = "its blocks have fewer than 256 threads";
  }
  return facts;
}

class CudaDriver final : public gpu::Driver {
 public:
  CudaDriver(const DriverApi& api, CUdevice device, Facts facts)
      : facts_(std::move(facts)),
        device_(device),
        context_(std::make_shared<CudaContext>(api, device)),
        pinned_(std::make_shared<PinnedMemory>(context_)) {}

  const gpu::Description& description() const override { return facts_.description; }
  std::string_view dialect() const override { return "cuda"; }
  const ContextPtr& context() const { return context_; }

  gpu::Memory allocate(size_t bytes) override { return context_->allocate(bytes); }
  void release(gpu::Memory memory) noexcept override {
    context_->release(static_cast<DeviceAllocation*>(memory));
  }
  std::shared_ptr<gpu::Stream> create_stream() override {
    return std::make_shared<CudaStream>(context_, context_->create_stream());
  }
  std::shared_ptr<char[]> staging(size_t bytes) override { return pinned_->take(bytes); }

  std::shared_ptr<gpu::Module> compile(const std::string& text) override {
    const Nvrtc& nvrtc = find_nvrtc(facts_.capability, facts_.driver);
    return std::make_shared<CudaModule>(context_,
                                        nvrtc.compile(text, nvrtc.target_for(facts_.capability)));
  }

  std::shared_ptr<gpu::Module> load(const std::string& binary) override {
    try {
      return std::make_shared<CudaModule>(context_, binary);
    } catch (const InvalidArgument&) {
      return nullptr;
    }
  }

  std::string compiler() const override {
    try {
      const Nvrtc& nvrtc = find_nvrtc(facts_.capability, facts_.driver);
      return nvrtc.options_text(nvrtc.target_for(facts_.capability));
    } catch (const Unavailable&) {
      return {};  // To compile will say so.
    }
  }

  /// Where two devices are not linked, NVIDIA's driver itself copies through the host.
  bool reaches(const gpu::Driver& other) const override {
    const auto* own = dynamic_cast<const CudaDriver*>(&other);
    return own != nullptr && &own->context_->api() == &context_->api();
  }

  /// Devices whose link carries atomics have NVLink; PCI Express does not carry them.
  gpu::Link link_to(const gpu::Driver& other) const override {
    if (!reaches(other)) return gpu::Link::host;
    const auto& peer = static_cast<const CudaDriver&>(other);
    const auto has = [&](CUdevice_P2PAttribute attribute) {
      int value = 0;
      const DriverApi& api = context_->api();
      api.check(api.cuDeviceGetP2PAttribute(&value, attribute, device_, peer.device_),
                "cuDeviceGetP2PAttribute");
      return value != 0;
    };
    if (device_ == peer.device_) return gpu::Link::driver;
    if (!has(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED)) return gpu::Link::host;
    return has(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED) ? gpu::Link::nvlink
                                                                : gpu::Link::pcie;
  }

  /// Libraries make their handles before, since that allocates.
  std::unique_ptr<gpu::StreamCapture> capture() override {
    std::unique_lock capturing(capture_mutex_);
    if (!capture_stream_) {
      capture_stream_ = std::make_shared<CudaStream>(context_, context_->create_capture_stream());
    }
    const auto [products, convolutions] = [&] {
      const std::lock_guard lock(mutex_);
      return std::pair(products_, convolutions_);
    }();
    if (products) products->open(*capture_stream_);
    if (convolutions) convolutions->open(*capture_stream_);
    return std::make_unique<CudaCapture>(context_, capture_stream_, std::move(capturing));
  }

  std::shared_ptr<gpu::ProductLibrary> products() override {
    const std::lock_guard lock(mutex_);
    if (!products_) {
      const LoadedCublas& loaded = load_cublas(context_->api());
      if (loaded.api == nullptr) {
        warn_of_missing("cuBLAS", "matrix products are computed by slower kernels", loaded.missing);
        return nullptr;
      }
      products_ = cublas_products(*loaded.api, context_);
    }
    return products_;
  }

  std::shared_ptr<gpu::ConvolutionLibrary> convolutions() override {
    const std::lock_guard lock(mutex_);
    if (!convolutions_) {
      const LoadedCudnn& loaded = load_cudnn(context_->api());
      if (loaded.api == nullptr) {
        warn_of_missing("cuDNN", "convolutions are computed by slower kernels", loaded.missing);
        return nullptr;
      }
      convolutions_ = cudnn_convolutions(*loaded.api, context_);
    }
    return convolutions_;
  }

 private:
  const Facts facts_;
  const CUdevice device_;
  const ContextPtr context_;
  const std::shared_ptr<PinnedMemory> pinned_;
  std::mutex mutex_;  // Guards what follows.
  std::shared_ptr<gpu::ProductLibrary> products_;
  std::shared_ptr<gpu::ConvolutionLibrary> convolutions_;
  std::mutex capture_mutex_;  // Held while commands are captured; guards what follows.
  std::shared_ptr<CudaStream> capture_stream_;
};

}  // namespace

LibraryStream& library_stream(gpu::Stream& stream) { return static_cast<CudaStream&>(stream); }

CUdeviceptr address_of(const gpu::Location& location) {
  return allocation_of(location.memory).address + location.offset;
}

std::shared_ptr<CudaContext> context_of(const gpu::Driver& driver) {
  const auto* const own = dynamic_cast<const CudaDriver*>(&driver);
  return own == nullptr ? nullptr : own->context();
}

std::vector<gpu::DriverPtr> find_drivers(const DriverApi& api) {
  constexpr int kOldest = 12000;
  int version = 0;
  api.check(api.cuDriverGetVersion(&version), "cuDriverGetVersion");
  if (version < kOldest) {
    throw Unavailable(
        fmt::format("the driver is for CUDA {}; CUDA {} is the oldest that is supported",
                    version_text(version), version_text(kOldest)));
  }
  api.check(api.cuInit(0), "cuInit");
  int count = 0;
  api.check(api.cuDeviceGetCount(&count), "cuDeviceGetCount");
  std::vector<gpu::DriverPtr> drivers;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    api.check(api.cuDeviceGet(&device, i), "cuDeviceGet");
    drivers.push_back(std::make_shared<CudaDriver>(api, device, facts_of(api, device, version)));
  }
  return drivers;
}

}  // namespace tandem::devices::cuda
