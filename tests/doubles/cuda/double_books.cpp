#include "double_books.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace tandem::doubles::cuda {
namespace {

/// As numbers: NaN and -1.
constexpr int kPoison = 0xff;
constexpr size_t kAlign = 256;

CUresult result_of(ptx::DeviceFault::Kind kind) {
  constexpr auto kMisaligned = static_cast<CUresult>(716);
  switch (kind) {
    case ptx::DeviceFault::Kind::address:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case ptx::DeviceFault::Kind::alignment:
      return kMisaligned;
    case ptx::DeviceFault::Kind::program:
      break;
  }
  return CUDA_ERROR_LAUNCH_FAILED;
}

}  // namespace

Books& Books::instance() {
  static auto* const books = new Books;
  return *books;
}

/// The environment speaks for programs that cannot call the functions of double_control.h.
Books::Books() {
  if (const char* devices = std::getenv("TANDEM_CUDA_DOUBLES"))
    settings.devices = std::atoll(devices);
  if (const char* text = std::getenv("TANDEM_CUDA_DOUBLE_FAIL")) {
    char function[64] = "";
    int n = 0;
    unsigned error = 0;
    if (std::sscanf(text, "%63[^:]:%d:%u", function, &n, &error) == 3) {
      fail(function, n, static_cast<CUresult>(error));
    }
  }
}

void Books::complain(const std::string& what) {
  ++counts["complaints"];
  std::fprintf(stderr, "libcuda double: %s\n", what.c_str());
}

void Books::fail(const std::string& function, int n, CUresult error) {
  failures_[function] = {n, error};
}

CUresult Books::failure_of(const std::string& function) {
  const auto found = failures_.find(function);
  if (found == failures_.end() || --found->second.first > 0) return CUDA_SUCCESS;
  const CUresult error = found->second.second;
  failures_.erase(found);
  return error;
}

// ---- Commands ----

void Books::end_capture(const DoubleCapture& capture) {
  streams.each([&](DoubleStream& stream) {
    if (stream.capture.get() == &capture) stream.capture.reset();
  });
}

void Books::check_runs(const std::string& command) {
  const std::lock_guard lock(mutex);
  if (failure_of(command) == CUDA_SUCCESS) return;
  throw ptx::DeviceFault(ptx::DeviceFault::Kind::program,
                         fmt::format("a {} of a graph fails on purpose", command));
}

void Books::check_not_captured(const DoubleStream& stream, const char* what) const {
  if (!stream.capture) return;
  stream.capture->invalid = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  throw Complaint(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                  fmt::format("{} while the stream is being captured", what));
}

void Books::issue(const DoubleStreamPtr& stream, Command command) {
  if (stream->capture) {
    DoubleCapture& capture = *stream->capture;
    if (capture.invalid != CUDA_SUCCESS) {
      throw Complaint(capture.invalid, "a command of a capture that is good for nothing");
    }
    ++capture.issued[stream.get()];
    if (stream != capture.origin) capture.unjoined.insert(stream.get());
    capture.commands.push_back(std::move(command));
    return;
  }
  if (!is_working_) {
    is_working_ = true;
    random_.seed(static_cast<unsigned>(settings.seed));
    std::thread([this] { work(); }).detach();  // It ends with the process.
  }
  stream->commands.push_back(std::move(command));
  if (std::ranges::find(active_, stream) == active_.end()) active_.push_back(stream);
  changed.notify_all();
}

void Books::wait_for(const DoubleStream& stream, std::unique_lock<std::mutex>& lock) {
  changed.wait(lock, [&] {
    return stream.context->lost != CUDA_SUCCESS || (stream.commands.empty() && !stream.is_busy);
  });
}

void Books::wait_for(const DoubleContext& context, std::unique_lock<std::mutex>& lock) {
  changed.wait(lock, [&] {
    return context.lost != CUDA_SUCCESS ||
           std::ranges::none_of(active_, [&](const DoubleStreamPtr& stream) {
             return stream->context.get() == &context;
           });
  });
}

/// Takes the next command of any stream that need not wait.
void Books::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    std::vector<DoubleStreamPtr> ready;
    for (const DoubleStreamPtr& stream : active_) {
      const Command& next = stream->commands.front();
      const bool waits = next.kind == Command::Kind::wait && next.event->reached < next.version;
      if (!waits) ready.push_back(stream);
    }
    if (ready.empty()) {
      changed.wait(lock);
      continue;
    }
    const DoubleStreamPtr stream = ready[random_() % ready.size()];
    Command command = std::move(stream->commands.front());
    stream->commands.pop_front();
    run(stream, std::move(command), lock);
    if (stream->commands.empty()) std::erase(active_, stream);
    changed.notify_all();
  }
}

/// Commands of a context that is lost are not run; events are reached all the same, so that nobody
/// waits for ever.
void Books::run(const DoubleStreamPtr& stream, Command command,
                std::unique_lock<std::mutex>& lock) {
  if (command.kind == Command::Kind::record) {
    command.event->reached = std::max(command.event->reached, command.version);
    command.event->time = std::chrono::steady_clock::now();
  }
  if (command.kind != Command::Kind::work || stream->context->lost != CUDA_SUCCESS) return;
  CUresult result = failure_of(command.name);
  const bool is_late = settings.delay > 0 && random_() % 8 == 0;
  const auto delay = std::chrono::microseconds(is_late ? random_() % settings.delay : 0);
  stream->is_busy = true;
  lock.unlock();
  std::string what = fmt::format("a {} fails on purpose", command.name);
  if (result == CUDA_SUCCESS) {
    try {
      if (is_late) std::this_thread::sleep_for(delay);
      command.run();
    } catch (const ptx::DeviceFault& fault) {
      result = result_of(fault.kind);
      what = fault.what();
    }
  }
  command = {};  // What it holds is let go of without the lock.
  lock.lock();
  stream->is_busy = false;
  if (result == CUDA_SUCCESS) return;
  stream->context->lost = result;
  std::fprintf(stderr, "libcuda double: %s\n", what.c_str());
}

// ---- Memory ----

uint64_t Books::reserve(int device, size_t bytes, bool is_pooled) {
  if (bytes == 0) throw Complaint(CUDA_ERROR_INVALID_VALUE, "an allocation of no bytes");
  if (used_[device] + bytes > static_cast<size_t>(settings.memory)) return 0;
  // What follows an allocation belongs to none, so that going past its end is seen.
  const size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign + kAlign;
  const auto begin = reinterpret_cast<uint64_t>(std::aligned_alloc(kAlign, rounded));
  if (begin == 0) return 0;
  std::memset(reinterpret_cast<void*>(begin), kPoison, bytes);
  used_[device] += bytes;
  memory_[begin] = {begin, begin + bytes, device, is_pooled};
  return begin;
}

void Books::begin_life(uint64_t address) { memory_.at(address).is_live = true; }

void Books::give_back(uint64_t address, bool is_pooled) {
  const auto found = memory_.find(address);
  if (found == memory_.end() || found->second.is_given_back) {
    throw Complaint(CUDA_ERROR_INVALID_VALUE, fmt::format("{:#x} is no allocation", address));
  }
  if (found->second.is_pooled && !is_pooled) {
    throw Complaint(CUDA_ERROR_INVALID_VALUE, "memory of a pool is given back as if it were not");
  }
  found->second.is_given_back = true;
}

/// Its bytes stay poisoned for a while before the host uses them for something else.
void Books::end_life(uint64_t address) {
  constexpr size_t kMostPoisoned = size_t{16} << 20;
  const auto found = memory_.find(address);
  if (found == memory_.end()) return;
  const Memory memory = found->second;
  memory_.erase(found);
  used_[memory.device] -= memory.end - memory.begin;
  std::memset(reinterpret_cast<void*>(memory.begin), kPoison, memory.end - memory.begin);
  poisoned_.push_back(memory);
  poisoned_bytes_ += memory.end - memory.begin;
  while (poisoned_bytes_ > kMostPoisoned) {
    const Memory& oldest = poisoned_.front();
    poisoned_bytes_ -= oldest.end - oldest.begin;
    std::free(reinterpret_cast<void*>(oldest.begin));
    poisoned_.pop_front();
  }
}

void Books::forget_device(int device) {
  std::vector<uint64_t> own;
  for (const auto& [begin, memory] : memory_) {
    if (memory.device == device) own.push_back(begin);
  }
  for (const uint64_t begin : own) end_life(begin);
}

size_t Books::live_memory() const {
  return static_cast<size_t>(std::ranges::count_if(
      memory_, [](const auto& entry) { return !entry.second.is_given_back; }));
}

const Memory* Books::find_memory(uint64_t address) const {
  auto after = memory_.upper_bound(address);
  if (after == memory_.begin()) return nullptr;
  const Memory& memory = std::prev(after)->second;
  return address < memory.end ? &memory : nullptr;
}

void Books::check_named(uint64_t address, size_t bytes, int device) const {
  const Memory* const memory = find_memory(address);
  if (memory == nullptr || address + bytes > memory->end) {
    throw Complaint(CUDA_ERROR_INVALID_VALUE,
                    fmt::format("{} bytes at {:#x} are not within an allocation", bytes, address));
  }
  if (memory->is_given_back) {
    throw Complaint(CUDA_ERROR_INVALID_VALUE, fmt::format("{:#x} was given back before", address));
  }
  if (memory->device != device) {
    throw Complaint(CUDA_ERROR_INVALID_VALUE,
                    fmt::format("{:#x} is memory of device {}, not of device {}", address,
                                memory->device, device));
  }
}

void Books::check_used(uint64_t address, size_t bytes) const {
  const Memory* const memory = find_memory(address);
  if (memory != nullptr && memory->is_live && address + bytes <= memory->end) return;
  throw ptx::DeviceFault(
      ptx::DeviceFault::Kind::address,
      fmt::format("a command uses {} bytes at {:#x}, which are {}", bytes, address,
                  memory == nullptr ? "freed, or were never allocated"
                  : memory->is_live ? "not all within the allocation"
                                    : "not yet allocated: it does not wait for that"));
}

ptx::PtxRange Books::range_of(uint64_t address, const DoubleContext& context) const {
  const Memory* const memory = find_memory(address);
  if (memory == nullptr || !memory->is_live) return {};
  if (memory->device != context.device) {
    const auto access = pool_access.find(memory->device);
    const bool open = memory->is_pooled
                          ? access != pool_access.end() && access->second.contains(context.device)
                          : context.peers.contains(memory->device);
    if (!open) return {};
  }
  return {memory->begin, memory->end};
}

}  // namespace tandem::doubles::cuda
