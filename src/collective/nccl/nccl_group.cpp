#include "collective/nccl/nccl_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "device/cuda/cuda_driver.h"
#include "device/cuda/cuda_nccl.h"
#include "device/gpu/gpu_queue.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::collective::nccl {
namespace {

using devices::DevicePtr;
using devices::Event;
using devices::gpu::GpuMemory;
using devices::gpu::GpuQueue;
using devices::gpu::Link;
using namespace devices::cuda;  // NOLINT: NCCL's names

/// Null where the device is none of NVIDIA's.
const GpuMemory* memory_of(const DevicePtr& device) {
  const auto* const memory = dynamic_cast<const GpuMemory*>(&device->space());
  return memory != nullptr && context_of(memory->driver()) ? memory : nullptr;
}

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return ncclFloat32;
    case DType::float64:
      return ncclFloat64;
    case DType::float16:
      return ncclFloat16;
    case DType::bfloat16:
      return ncclBfloat16;
    case DType::int32:
      return ncclInt32;
    case DType::int64:
      return ncclInt64;
    case DType::uint8:
    case DType::boolean:
    case DType::int8:  // Sums of these are made in wider types: op/widening.h.
    case DType::int16:
    case DType::uint16:
    case DType::uint32:
    case DType::uint64:
      break;
  }
  return ncclUint8;
}

/// NCCL counts devices as cuDeviceGet does.
int ordinal_of(CudaContext& context) {
  const DriverApi& api = context.api();
  for (int i = 0;; ++i) {
    CUdevice device = 0;
    api.check(api.cuDeviceGet(&device, i), "cuDeviceGet");
    if (device == context.device()) return i;
  }
}

/// The communicators of a list of devices, made on a thread of their own: the call waits for all
/// devices, and cannot be ended.
class NewCommunicators {
 public:
  NewCommunicators(const NcclApi& api, std::shared_ptr<CudaContext> context,
                   std::vector<int> ordinals)
      : api_(api),
        context_(std::move(context)),
        ordinals_(std::move(ordinals)),
        made_(ordinals_.size()) {}

  /// Throws DeadlineExceeded where they are not there in time; the thread then gives back what it
  /// still gets.
  static std::vector<ncclComm_t> make(const NcclApi& api,
                                      const std::shared_ptr<CudaContext>& context,
                                      const std::vector<int>& ordinals, const std::string& names) {
    const auto own = std::make_shared<NewCommunicators>(api, context, ordinals);
    std::thread([own] { own->run(); }).detach();
    std::unique_lock lock(own->mutex_);
    const auto deadline = config::wait_deadline();
    if (!own->ended_.wait_for(lock, deadline, [&] { return own->has_ended_; })) {
      own->is_late_ = true;
      throw DeadlineExceeded(fmt::format(
          "ncclCommInitAll: NCCL has not connected {} within {:.3g} s (config::set_wait_deadline). "
          "NCCL_DEBUG=INFO makes it say what it waits for; "
          "MirroredOptions::reduction chooses our own copies instead",
          names, std::chrono::duration<double>(deadline).count()));
    }
    if (own->error_) std::rethrow_exception(own->error_);
    return own->made_;
  }

 private:
  void run() {
    std::exception_ptr error;
    try {
      const Current current(*context_);
      api_.check(
          api_.ncclCommInitAll(made_.data(), static_cast<int>(made_.size()), ordinals_.data()),
          "ncclCommInitAll");
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = error;
    has_ended_ = true;
    ended_.notify_all();
    if (!is_late_ || error) return;
    for (const ncclComm_t communicator : made_) api_.ncclCommAbort(communicator);
  }

  const NcclApi& api_;
  const std::shared_ptr<CudaContext> context_;
  const std::vector<int> ordinals_;
  std::vector<ncclComm_t> made_;
  std::mutex mutex_;  // Guards what follows.
  std::condition_variable ended_;
  bool has_ended_ = false;
  bool is_late_ = false;
  std::exception_ptr error_;
};

class NcclGroup final : public DeviceGroup {
 public:
  NcclGroup(const NcclApi& api, const std::vector<DevicePtr>& devices) : api_(api) {
    for (const DevicePtr& device : devices) {
      const GpuMemory* const memory = memory_of(device);
      members_.push_back({.device = device,
                          .memory = memory,
                          .queue = &static_cast<GpuQueue&>(device->exchange_queue()),
                          .context = context_of(memory->driver())});
      order_.push_back(order_.size());
    }
    std::ranges::sort(order_, {}, [&](size_t i) { return &members_[i].queue->timeline(); });
    create_communicators();
  }

  /// To destroy a communicator that still sums would be to wait for it.
  ~NcclGroup() override {
    const bool is_idle = std::ranges::all_of(
        members_, [](const Member& member) { return member.queue->record().ready(); });
    if (!is_idle) abort_locked();
    if (is_aborted_) return;
    for (const Member& member : members_) api_.ncclCommDestroy(member.communicator);
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  void all_reduce(std::span<const Operand> operands, std::span<const Event> after,
                  std::span<Event> done) override {
    const std::lock_guard lock(mutex_);
    if (is_aborted_) throw Unavailable("the communicator of NCCL was aborted");
    check_members();
    issue({operands, after, done}, 0);
  }

  void abort() noexcept override {
    // A thread may be stuck in a call of the library: this ends it.
    const std::unique_lock lock(mutex_, std::chrono::seconds(1));
    abort_locked();
  }

  bool is_aborted() const override { return is_aborted_; }

 private:
  struct Member {
    DevicePtr device{};
    const GpuMemory* memory = nullptr;
    GpuQueue* queue = nullptr;  // The device's exchange queue.
    std::shared_ptr<CudaContext> context{};
    ncclComm_t communicator = nullptr;
    CUstream stream = nullptr;  // The queue's, while commands are issued.
  };

  struct Sums {
    std::span<const Operand> operands;
    std::span<const Event> after;
    std::span<Event> done;
  };

  /// GPUs of one process read each other's buffers directly, where they are linked.
  void create_communicators() {
    for (const Member& own : members_) {
      for (const Member& other : members_) {
        if (&own != &other) own.context->open_to(*other.context);
      }
    }
    std::vector<int> ordinals;
    std::vector<std::string> names;
    for (const Member& member : members_) {
      ordinals.push_back(ordinal_of(*member.context));
      names.push_back(member.device->name());
    }
    const auto communicators = NewCommunicators::make(api_, members_[0].context, ordinals,
                                                      fmt::format("{}", fmt::join(names, ", ")));
    for (size_t i = 0; i < members_.size(); ++i) members_[i].communicator = communicators[i];
  }

  /// What has gone wrong in earlier sums.
  void check_members() {
    for (const Member& member : members_) {
      ncclResult_t state = ncclSuccess;
      const ncclResult_t result = api_.ncclCommGetAsyncError(member.communicator, &state);
      if (result == ncclSuccess && state == ncclSuccess) continue;
      abort_locked();
      const ncclResult_t failed = result == ncclSuccess ? state : result;
      throw Unavailable(fmt::format("NCCL on {}: {} ({})", member.device->name(),
                                    api_.ncclGetErrorString(failed),
                                    static_cast<unsigned>(failed)));
    }
  }

  /// Issues on the queues from the `i`-th on, with those before it locked: whoever locks several
  /// queues does so in the order of their timelines.
  void issue(const Sums& sums, size_t i) {
    if (i == members_.size()) return call(sums);
    const size_t rank = order_[i];
    Member& member = members_[rank];
    sums.done[rank] = member.queue->submit([&] {
      member.queue->wait(sums.after[rank]);
      member.queue->timeline().issue({.name = "all_reduce", .kind = profile::Activity::reduce}, {},
                                     [&](devices::gpu::Stream& stream, uint64_t) {
                                       LibraryStream& own = library_stream(stream);
                                       member.stream = own.get();
                                       own.issue([&] { issue(sums, i + 1); });
                                     });
    });
  }

  /// One thread speaks for all ranks, so the calls are a group.
  void call(const Sums& sums) {
    ncclResult_t result = api_.ncclGroupStart();
    const char* function = "ncclGroupStart";
    for (const Operand& operand : sums.operands) {
      for (size_t rank = 0; rank < members_.size() && result == ncclSuccess; ++rank) {
        const Member& member = members_[rank];
        const auto at = [&](void* address) {
          return reinterpret_cast<void*>(address_of(member.memory->locate(address)));
        };
        result =
            api_.ncclAllReduce(at(operand.from[rank]), at(operand.to[rank]), operand.count,
                               type_of(operand.dtype), ncclSum, member.communicator, member.stream);
        function = "ncclAllReduce";
      }
    }
    const ncclResult_t ended = api_.ncclGroupEnd();
    if (result == ncclSuccess && ended != ncclSuccess) {
      result = ended;
      function = "ncclGroupEnd";
    }
    if (result == ncclSuccess) return;
    abort_locked();
    api_.check(result, function);
  }

  void abort_locked() noexcept {
    if (is_aborted_.exchange(true)) return;
    for (const Member& member : members_) api_.ncclCommAbort(member.communicator);
  }

  const NcclApi& api_;
  std::vector<Member> members_;  // By rank.
  std::vector<size_t> order_;    // The ranks, in the order of their timelines.
  std::timed_mutex mutex_;       // Ranks make the same calls in the same order.
  std::atomic<bool> is_aborted_ = false;
};

const char* name_of(Link link) { return link == Link::nvlink ? "NVLink" : "PCIe"; }

/// The links between all pairs, or the first pair without one.
LibrarySums find_links(const std::vector<DevicePtr>& devices) {
  std::set<std::string> kinds;
  for (const DevicePtr& from : devices) {
    for (const DevicePtr& to : devices) {
      if (from == to) continue;
      const Link link = memory_of(from)->driver().link_to(memory_of(to)->driver());
      if (link == Link::host) {
        return {.is_usable = true,
                .text = fmt::format("since {} and {} reach each other through the host only",
                                    from->name(), to->name())};
      }
      kinds.insert(name_of(link));
    }
  }
  return {.is_usable = true, .is_linked = true, .text = fmt::format("{}", fmt::join(kinds, ", "))};
}

const LoadedNccl& load_for(const DevicePtr& device) {
  return load_nccl(context_of(memory_of(device)->driver())->api());
}

}  // namespace

LibrarySums find_sums(const std::vector<DevicePtr>& devices) {
  std::set<const devices::gpu::Driver*> drivers;
  for (const DevicePtr& device : devices) {
    const GpuMemory* const memory = memory_of(device);
    if (memory == nullptr) return {};
    drivers.insert(&memory->driver());
  }
  if (devices.size() < 2) return {};
  if (drivers.size() < devices.size()) return {.text = "since replicas share a GPU"};
  const LibrarySums links = find_links(devices);
  if (!links.is_linked) return links;
  const LoadedNccl& loaded = load_for(devices[0]);
  if (loaded.api != nullptr) return links;
  warn_of_missing("NCCL", "gradients are summed by copies from GPU to GPU", loaded.missing);
  return {.text = "since it was not found (tandem devices --libraries)"};
}

std::shared_ptr<DeviceGroup> open_group(const std::vector<DevicePtr>& devices) {
  static std::mutex mutex;
  static auto* const groups = new std::map<std::vector<uint64_t>, std::weak_ptr<DeviceGroup>>;
  std::vector<uint64_t> key;
  for (const DevicePtr& device : devices) key.push_back(device->id());
  const std::lock_guard lock(mutex);
  std::erase_if(*groups, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<DeviceGroup>& known = (*groups)[key];
  if (auto group = known.lock(); group && !group->is_aborted()) return group;
  const auto group = std::make_shared<NcclGroup>(*load_for(devices[0]).api, devices);
  known = group;
  return group;
}

}  // namespace tandem::collective::nccl
