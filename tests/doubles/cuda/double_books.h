/// Everything that the double of libcuda keeps: which handles there are and what belongs to them,
/// which memory may be used by whom, and what streams still have to do. One thread runs all
/// commands, late, and takes them from the streams in a random order that keeps to the events.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/cuda/cuda_api.h"
#include "ptx_machine.h"

namespace tandem::doubles::cuda {

using namespace devices::cuda;  // NOLINT: the driver's types

/// A call that breaks the driver's rules: what it returns, and what is wrong.
struct Complaint : std::runtime_error {
  Complaint(CUresult error, const std::string& what) : std::runtime_error(what), result(error) {}
  CUresult result;
};

struct DoubleSettings {
  long long devices = 2;
  long long capability = 81;
  long long driver = 13000;
  long long memory = 1LL << 30;
  long long pools = 1;
  long long peers = 1;
  long long reverse = 0;
  long long seed = 1;
  long long delay = 100;
  long long cudnn = 91900;
  long long nccl = 22703;
  long long epilogues = 1;
  long long nccl_connects = 1;
};

struct DoubleContext {
  int device = 0;
  int retained = 0;
  CUresult lost = CUDA_SUCCESS;  // What a command has done to it, for good.
  std::set<int> peers{};         // The devices whose memory it may use.
};
using DoubleContextPtr = std::shared_ptr<DoubleContext>;

struct DoubleCapture;

/// How often it was recorded, and up to which of these times the commands have run.
struct DoubleEvent {
  DoubleContextPtr context;
  bool is_timed = true;
  uint64_t recorded = 0;
  uint64_t reached = 0;
  std::chrono::steady_clock::time_point time{};
  std::weak_ptr<DoubleCapture> capture{};  // It was last recorded there,
  const void* captured_on = nullptr;       // on this stream,
  size_t captured_behind = 0;              // behind so many of its commands.
};
using DoubleEventPtr = std::shared_ptr<DoubleEvent>;

struct Command {
  const char* name = "";
  std::function<void()> run{};
  DoubleEventPtr event{};  // To wait for, or to record where there is nothing to run.
  uint64_t version = 0;
  enum class Kind { work, wait, record } kind = Kind::work;
};

struct DoubleStream {
  DoubleContextPtr context;
  std::deque<Command> commands{};
  bool is_busy = false;
  std::shared_ptr<DoubleCapture> capture{};  // Its commands are captured there.
};
using DoubleStreamPtr = std::shared_ptr<DoubleStream>;

/// What was issued on streams since cuStreamBeginCapture, in the order in which it was. Streams
/// that wait for an event of it take part, and must be waited for before it ends.
struct DoubleCapture {
  DoubleStreamPtr origin{};
  std::vector<Command> commands{};
  std::map<const DoubleStream*, size_t> issued{};  // Commands, by stream that takes part,
  std::set<const DoubleStream*> unjoined{};        // and those that nobody has waited for.
  CUresult invalid = CUDA_SUCCESS;                 // Why it is good for nothing.
};

/// A graph, and one that can be launched.
struct DoubleGraph {
  DoubleContextPtr context;
  std::shared_ptr<const std::vector<Command>> commands;
};

struct DoubleModule {
  DoubleContextPtr context;
  std::unique_ptr<ptx::PtxModule> program;
};
struct DoubleFunction {
  DoubleContextPtr context;
  std::shared_ptr<DoubleModule> module;
  const ptx::PtxKernel* kernel = nullptr;
};

/// An allocation. Memory that is allocated in order with a stream's commands begins to live, and
/// ends, when those are run; the calls that ask for it come earlier.
struct Memory {
  uint64_t begin = 0;
  uint64_t end = 0;
  int device = 0;
  bool is_pooled = false;
  bool is_live = false;
  bool is_given_back = false;  // By a call: nothing that is issued later may use it.
};

/// Handles of one kind. They are numbers that never come again, so a stale one is known as such.
template <class T>
class Book {
 public:
  explicit Book(const char* kind) : kind_(kind) {}

  uintptr_t add(std::shared_ptr<T> object) {
    next_ += 16;
    live_[next_] = std::move(object);
    return next_;
  }
  template <class F>
  void each(const F& f) const {
    for (const auto& [handle, object] : live_) f(*object);
  }
  std::shared_ptr<T> find(const void* handle) const {
    const auto found = live_.find(reinterpret_cast<uintptr_t>(handle));
    if (found != live_.end()) return found->second;
    throw Complaint(CUDA_ERROR_INVALID_HANDLE, std::string("there is no such ") + kind_);
  }
  void remove(const void* handle) {
    find(handle);
    live_.erase(reinterpret_cast<uintptr_t>(handle));
  }
  size_t size() const { return live_.size(); }

 private:
  const char* const kind_;
  uintptr_t next_ = 0x1000;
  std::map<uintptr_t, std::shared_ptr<T>> live_;
};

class Books {
 public:
  static Books& instance();

  /// Guards everything; not held while a command runs.
  std::mutex mutex;
  std::condition_variable changed;

  DoubleSettings settings;
  bool is_initialized = false;
  std::vector<int> visible;  // The devices that the process sees, by the numbers that it uses.
  std::map<std::string, long long> counts;
  Book<DoubleContext> contexts{"context"};
  Book<DoubleStream> streams{"stream"};
  Book<DoubleEvent> events{"event"};
  Book<DoubleModule> modules{"module"};
  Book<DoubleFunction> functions{"function"};
  Book<DoubleGraph> graphs{"graph"};
  Book<DoubleGraph> executable_graphs{"executable graph"};
  std::map<int, uintptr_t> primary;          // Contexts by device.
  std::map<int, std::set<int>> pool_access;  // Which devices may use a device's pool.
  std::map<uint64_t, uint64_t> pinned;       // Ends by beginnings.

  /// Injected failures: CUDA_SUCCESS where none is due.
  CUresult failure_of(const std::string& function);
  void fail(const std::string& function, int n, CUresult error);

  // ---- Commands. The mutex is held. ----

  void issue(const DoubleStreamPtr& stream, Command command);

  /// Its streams are no longer captured.
  void end_capture(const DoubleCapture& capture);

  /// Throws Complaint where the stream is being captured, which `what` breaks.
  void check_not_captured(const DoubleStream& stream, const char* what) const;
  void wait_for(const DoubleStream& stream, std::unique_lock<std::mutex>& lock);
  void wait_for(const DoubleContext& context, std::unique_lock<std::mutex>& lock);

  /// A command of a graph is run, without the mutex. Throws ptx::DeviceFault where it is to fail.
  void check_runs(const std::string& command);

  // ---- Memory. The mutex is held. ----

  /// 0 when there is no more.
  uint64_t reserve(int device, size_t bytes, bool is_pooled);
  void begin_life(uint64_t address);
  void give_back(uint64_t address, bool is_pooled);
  void end_life(uint64_t address);
  void forget_device(int device);
  size_t live_memory() const;

  /// Throws Complaint unless the call may name this memory.
  void check_named(uint64_t address, size_t bytes, int device) const;

  /// Throws ptx::DeviceFault unless a command that runs now may use it.
  void check_used(uint64_t address, size_t bytes) const;

  /// What a kernel of `context` may use at `address`.
  ptx::PtxRange range_of(uint64_t address, const DoubleContext& context) const;

  /// The double says what is wrong.
  void complain(const std::string& what);

 private:
  Books();
  void work();
  void run(const DoubleStreamPtr& stream, Command command, std::unique_lock<std::mutex>& lock);
  const Memory* find_memory(uint64_t address) const;

  std::map<uint64_t, Memory> memory_;  // By their beginnings.
  std::map<int, size_t> used_;         // Bytes by device.
  std::deque<Memory> poisoned_;        // Freed, and not yet the host's again.
  size_t poisoned_bytes_ = 0;
  std::vector<DoubleStreamPtr> active_;  // With commands, or running one.
  std::map<std::string, std::pair<int, CUresult>> failures_;
  std::minstd_rand random_;
  bool is_working_ = false;
};

}  // namespace tandem::doubles::cuda
