/// What the calls of all doubled libraries have in common: the current context, and commands that
/// use memory.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <vector>

#include "double_books.h"

#define TANDEM_EXPORTED extern "C" __attribute__((visibility("default")))

namespace tandem::doubles::cuda {

using Lock = std::unique_lock<std::mutex>;

inline Books& books() { return Books::instance(); }

/// What a lost context answers to everything.
struct Lost {
  CUresult result;
};

// The mutex is held. They throw Complaint or Lost.

/// The thread's current context.
DoubleContextPtr current();

/// The same, which is not lost.
DoubleContextPtr working();

/// A stream of the current context.
DoubleStreamPtr stream_of(CUstream handle);

/// Memory of a device that a command uses.
struct UsedMemory {
  CUdeviceptr address;
  size_t bytes;
  int device;
};

/// A command that uses memory: checked now, and again when it runs.
void issue_use(CUstream handle, const char* name, const std::vector<UsedMemory>& used,
               std::function<void()> run);

// Where a stream is being captured, these do what a wait and a record do there, and return true.
bool wait_in_capture(const DoubleStreamPtr& stream, const DoubleEvent& event);
bool record_in_capture(const DoubleStream& stream, DoubleEvent& event);

/// The host may not ask an event that was last recorded in a capture.
void check_not_captured(const DoubleEvent& event);

/// Runs a call of the driver: with the lock, unless it is to fail.
template <class Body>
CUresult driver_call(const char* name, const Body& body) {
  Lock lock(books().mutex);
  if (const CUresult injected = books().failure_of(name); injected != CUDA_SUCCESS) return injected;
  if (!books().is_initialized && std::strcmp(name, "cuInit") != 0 &&
      std::strcmp(name, "cuDriverGetVersion") != 0) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  try {
    return body(lock);
  } catch (const Lost& lost) {
    return lost.result;
  } catch (const Complaint& complaint) {
    books().complain(fmt::format("{}: {}", name, complaint.what()));
    return complaint.result;
  }
}

/// Handles of libraries that are live.
size_t library_handles();
size_t nccl_communicators();

/// What a call of a library answers where it is wrong, and where it cannot go on.
template <class Status>
struct LibraryErrors {
  Status success, wrong, failed;
};

/// Runs a call of a library: with the lock, unless it is to fail.
template <class Status, class Body>
Status library_call(const char* name, const LibraryErrors<Status>& errors, const Body& body) {
  const Lock lock(books().mutex);
  if (const CUresult injected = books().failure_of(name); injected != CUDA_SUCCESS) {
    return static_cast<Status>(injected);
  }
  try {
    body();
    return errors.success;
  } catch (const Lost&) {
    return errors.failed;
  } catch (const Complaint& complaint) {
    books().complain(fmt::format("{}: {}", name, complaint.what()));
    return errors.wrong;
  }
}

/// Complains unless `holds`.
inline void require(bool holds, const std::string& what) {
  if (!holds) throw Complaint(CUDA_ERROR_INVALID_VALUE, what);
}

}  // namespace tandem::doubles::cuda
