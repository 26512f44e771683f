#include "device/test/test_device.h"

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "tandem/config.h"

namespace tandem::devices::test {
namespace {

// Set in every address handed out: following one is a fault on the spot.
constexpr uintptr_t kVeil = uintptr_t{1} << 62;

void* real_address(const void* data) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(data) & ~kVeil);
}

class VeiledMemory final : public MemorySpace {
 public:
  explicit VeiledMemory(std::string name) : name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  bool host_readable() const override { return false; }

  void* allocate(size_t bytes) override {
    void* data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (data == nullptr) return nullptr;
    std::memset(data, 0xa5, bytes);  // What was never written reads as nonsense, not as zero.
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(data) | kVeil);
  }
  void deallocate(void* data, size_t) noexcept override { std::free(real_address(data)); }
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
};

/// Runs work in order on its own thread, each piece late. The first error is kept and ends up in
/// every event recorded after it, until one of them has been recorded as failed.
class LateQueue final : public Queue {
 public:
  LateQueue(std::chrono::microseconds delay, bool stuck)
      : delay_(delay), stuck_(stuck), thread_([this] { serve(); }) {}

  ~LateQueue() override {
    {
      std::lock_guard lock(mutex_);
      leaving_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  bool immediate() const override { return false; }

  void submit(std::function<void()> work) override {
    {
      std::lock_guard lock(mutex_);
      pending_.push_back(std::move(work));
    }
    changed_.notify_all();
  }

  Event record() override {
    Event event = Event::pending();
    submit([this, event] { event.complete(std::exchange(error_, nullptr)); });
    return event;
  }

  void wait(Event event) override {
    submit([event] { event.wait("another device", config::wait_deadline()); });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return leaving_ || (!pending_.empty() && !stuck_); });
      if (leaving_) return;
      auto work = std::move(pending_.front());
      pending_.pop_front();
      lock.unlock();
      if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
      try {
        work();
      } catch (...) {
        if (!error_) error_ = std::current_exception();
      }
      work = nullptr;
      lock.lock();
    }
  }

  const std::chrono::microseconds delay_;
  const bool stuck_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> pending_;
  bool leaving_ = false;
  std::exception_ptr error_;  // Touched only by the thread.
  std::thread thread_;
};

}  // namespace

void add_test_gpu(const Options& options) {
  Device::Options device;
  device.spec.type = "GPU";
  device.spec.index = options.index;
  device.backend = "test";
  device.own_space = std::make_shared<VeiledMemory>(device.spec.str());
  device.queue = std::make_unique<LateQueue>(options.delay, options.stuck);
  device.kernels = "cpu";
  device.missing_kernels = options.missing_kernels;
  device.kernel_address = real_address;
  add_device(std::move(device));
}

}  // namespace tandem::devices::test
