#include "device/test/test_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/alignment.h"
#include "device/inventory.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::devices::test {
namespace {

// Set in every address handed out: following one is a fault on the spot.
constexpr uintptr_t kVeil = uintptr_t{1} << 62;

void* real_address(const void* data) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(data) & ~kVeil);
}

class VeiledMemory final : public MemorySpace {
 public:
  VeiledMemory(std::string name, size_t capacity) : name_(std::move(name)), capacity_(capacity) {}
  const std::string& name() const override { return name_; }
  bool host_readable() const override { return false; }

  void* allocate(size_t bytes) override {
    std::lock_guard lock(mutex_);
    if (capacity_ != 0 && taken_ + bytes > capacity_) return nullptr;
    void* data = std::aligned_alloc(core::kAlignment, core::aligned(bytes));
    if (data == nullptr) return nullptr;
    std::memset(data, 0xa5, bytes);  // What was never written reads as nonsense, not as zero.
    live_.insert(data);
    taken_ += bytes;
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(data) | kVeil);
  }
  void deallocate(void* data, size_t bytes) noexcept override {
    {
      std::lock_guard lock(mutex_);
      live_.erase(real_address(data));
      taken_ -= bytes;
    }
    std::free(real_address(data));
  }
  void copy_from_host(void* to, const void* from, size_t bytes) override {
    std::memcpy(real_address(to), from, bytes);
  }
  void copy_to_host(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, real_address(from), bytes);
  }
  void copy_within(void* to, const void* from, size_t bytes) override {
    std::memcpy(real_address(to), real_address(from), bytes);
  }

 private:
  const std::string name_;
  const size_t capacity_;  // 0 is no limit.
  std::mutex mutex_;
  size_t taken_ = 0;
  std::set<void*> live_;  // Where leak checkers find what only veiled pointers refer to.
};

/// Runs work in order on its own thread, each piece late.
class LateQueue final : public Queue {
 public:
  LateQueue(std::string owner, std::chrono::microseconds delay, bool stuck)
      : state_(std::make_shared<State>(std::move(owner), delay, stuck)) {
    state_->thread = std::thread([state = state_] { state->serve(); });
    stop_at_exit(state_);
  }

  /// The last reference to a device may die in its own queue's work, on the queue's own thread.
  ~LateQueue() override {
    state_->leave();
    std::thread& thread = state_->thread;
    if (!thread.joinable()) return;  // The process ends.
    thread.get_id() == std::this_thread::get_id() ? thread.detach() : thread.join();
  }

  bool immediate() const override { return false; }
  void submit(std::function<void()> work) override { state_->submit(std::move(work)); }

  Event record() override {
    Event event = Event::pending(state_->owner);
    submit([state = state_.get(), event] { event.complete(state->error()); });
    return event;
  }

  void wait(Event event) override {
    submit([event] { event.wait(config::wait_deadline()); });
  }

 private:
  struct State {
    State(std::string owner_in, std::chrono::microseconds delay_in, bool stuck_in)
        : owner(std::move(owner_in)), delay(delay_in), stuck(stuck_in) {}

    void submit(std::function<void()> work) {
      {
        std::lock_guard lock(mutex);
        pending.push_back(std::move(work));
      }
      changed.notify_all();
    }

    void leave() {
      {
        std::lock_guard lock(mutex);
        leaving = true;
      }
      changed.notify_all();
    }

    /// Takes no further work and waits, not for ever, until the piece at hand is done.
    void stop() {
      std::unique_lock lock(mutex);
      leaving = true;
      changed.notify_all();
      const bool done =
          changed.wait_for(lock, std::chrono::seconds(2), [this] { return !working; });
      lock.unlock();
      if (thread.joinable()) done ? thread.join() : thread.detach();
    }

    /// What went wrong and has not been seen yet.
    std::shared_ptr<QueueError> error() {
      if (unseen && unseen->seen) unseen.reset();
      return unseen;
    }

    void serve() {
      std::unique_lock lock(mutex);
      while (true) {
        changed.wait(lock, [this] { return leaving || (!pending.empty() && !stuck); });
        if (leaving) return;
        auto work = std::move(pending.front());
        pending.pop_front();
        working = true;
        lock.unlock();
        run(work);
        work = nullptr;
        lock.lock();
        working = false;
        changed.notify_all();
      }
    }

    void run(const std::function<void()>& work) {
      if (delay.count() > 0) std::this_thread::sleep_for(delay);
      try {
        work();
      } catch (...) {
        if (error()) return;
        unseen = std::make_shared<QueueError>();
        unseen->error = std::current_exception();
      }
    }

    const std::string owner;
    const std::chrono::microseconds delay;
    const bool stuck;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> pending;
    bool leaving = false;
    bool working = false;
    std::shared_ptr<QueueError> unseen;  // Touched only by the thread.
    std::thread thread;
  };

  /// A process that ends takes down the libraries that kernels use: no kernel may still run then.
  /// The main thread's own objects die before anything else does, so one of them stops the queues.
  struct ExitGuard {
    ~ExitGuard() {
      if (getpid() != gettid()) return;
      std::lock_guard lock(queues_mutex());
      for (const auto& queue : queues()) {
        if (const auto alive = queue.lock()) alive->stop();
      }
    }
  };
  static std::mutex& queues_mutex() {
    static auto* mutex = new std::mutex;
    return *mutex;
  }
  static std::vector<std::weak_ptr<State>>& queues() {
    static auto* all = new std::vector<std::weak_ptr<State>>;
    return *all;
  }
  static void stop_at_exit(const std::shared_ptr<State>& state) {
    thread_local const ExitGuard guard;
    std::lock_guard lock(queues_mutex());
    std::erase_if(queues(), [](const auto& queue) { return queue.expired(); });
    queues().push_back(state);
  }

  const std::shared_ptr<State> state_;
};

/// `missing`, and variables that are neither of a float type nor int64, the type of counters of
/// steps: GPUs have no kernels for them.
std::set<std::string> without_small_integer_variables(std::set<std::string> missing) {
  for (const char* op : {"read_variable", "assign", "assign_add", "assign_sub"}) {
    for (DType dtype : {DType::uint8, DType::int32, DType::boolean}) {
      missing.insert(fmt::format("{} {}", op, name_of(dtype)));
    }
  }
  return missing;
}

}  // namespace

void add_test_gpu(const Options& options) {
  const auto next = static_cast<int>(config::list_physical_devices("GPU").size());
  if (options.index != next) {
    throw InvalidArgument(
        fmt::format("test device: GPU:{} {}; the next one is GPU:{}", options.index,
                    options.index < next ? "exists already" : "leaves a gap", next));
  }
  Physical gpu;
  gpu.description.type = "GPU";
  gpu.description.backend = "test";
  gpu.description.memory = options.memory;
  gpu.open = [options](const DeviceSpec& spec, const config::LogicalDeviceConfiguration&) {
    Device::Options device;
    device.own_space = std::make_shared<VeiledMemory>(spec.str(), options.memory);
    device.queue = std::make_unique<LateQueue>(spec.str(), options.delay, options.stuck);
    device.kernels = "cpu";
    device.missing_kernels = without_small_integer_variables(options.missing_kernels);
    device.kernel_address = real_address;
    return device;
  };
  Inventory::instance().add(std::move(gpu));
}

}  // namespace tandem::devices::test

namespace tandem::config {

void add_test_device(const TestDevice& device) {
  devices::test::add_test_gpu(
      {.index = static_cast<int>(list_physical_devices("GPU").size()),
       .delay = device.delay,
       .missing_kernels = {device.missing_kernels.begin(), device.missing_kernels.end()},
       .memory = device.memory});
}

}  // namespace tandem::config
