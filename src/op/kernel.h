/// How an op computes on a backend, in two phases. `prepare` does all that is slow, once per
/// signature; `run` only computes.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "device/logical_device.h"
#include "op/op_def.h"

namespace tandem::op {

/// Which random numbers a run draws. Random calls are counted over the life of the process, or
/// since the global seed was set: one for an eager op, for a program as many as its trace has.
struct RandomRun {
  uint64_t call = 0;           ///< The number of its first random call,
  uint32_t purpose = 0;        ///< among those of this runtime::RandomPurpose.
  uint64_t seed = 0;           ///< The global one for ops that have a seed of their own,
  uint64_t unseeded_seed = 0;  ///< and for the others.
};

/// What changes from step to step and is therefore not part of a program. Devices with a queue have
/// it in their own memory, as these 64 bytes.
struct StepScalars {
  int64_t rows = 0;         ///< The rows of this replica's part of the batch.
  int64_t row_offset = 0;   ///< The place of its first row within the global batch.
  int64_t global_rows = 0;  ///< The rows of the batch over all replicas.
  int replica = 0;
  int replicas = 1;
  RandomRun random;
};
static_assert(sizeof(StepScalars) == 64);

/// Where the threads that share a run wait for each other.
class Meeting {
 public:
  virtual ~Meeting() = default;
  virtual void meet() const = 0;
};

/// The parts of a run that one thread plays: `first`, `first + stride`, ..
struct Parts {
  int first = 0;
  int stride = 1;
  int count = 1;
};

/// One part of one run. Operands are the inputs, then the outputs, then the ranges, each
/// an index into `addresses`. On a device with a queue run() issues commands, and takes from the
/// launch what they need: nothing that it points to is there when they run, but memory of the
/// device.
struct Launch {
  void* const* addresses = nullptr;
  const int* operands = nullptr;
  int inputs = 0;
  int outputs = 0;
  void* workspaces = nullptr;   ///< One for each part, as large as the executable asked for.
  size_t workspace_stride = 0;  ///< The bytes from one part's to the next one's.
  int part = 0;
  int parts = 1;
  int phase = 0;                      ///< See Executable::phases().
  const StepScalars* step = nullptr;  ///< On a CPU.
  devices::Queue* queue = nullptr;    ///< On other devices: where commands are issued,
  const void* device_step = nullptr;  ///< and where the StepScalars are; null: as they come.
  /// On other devices, in a program: "replica 1 on /device:GPU:1" for errors, empty where there is
  /// one replica.
  const std::string* replica_name = nullptr;
  int replica = -1;                     ///< For profiles; -1 where it is nobody's.
  int random_call = 0;                  ///< Which random call of its program this is.
  int salt = 0;                         ///< Tells the iterations of a loop apart.
  void* const* const* peers = nullptr;  ///< The addresses of every replica, for collectives.
  const Meeting* meeting = nullptr;     ///< Null but in a program on several threads.

  void meet() const {
    if (meeting != nullptr) meeting->meet();
  }
  template <class T>
  const T* in(int i) const {
    return static_cast<const T*>(addresses[operands[i]]);
  }
  template <class T>
  T* out(int i) const {
    return static_cast<T*>(addresses[operands[inputs + i]]);
  }
  template <class T>
  T* range(int i) const {
    return static_cast<T*>(addresses[operands[inputs + outputs + i]]);
  }
  /// This part's own workspace, or another's after a phase in which that was written.
  template <class T = void>
  T* workspace(int of_part) const {
    return reinterpret_cast<T*>(static_cast<char*>(workspaces) +
                                workspace_stride * static_cast<size_t>(of_part));
  }
  template <class T = void>
  T* workspace() const {
    return workspace<T>(part);
  }
};

/// The contiguous share of `extent` units that one of `parts` threads takes; a single unit is the
/// first's.
inline std::pair<int64_t, int64_t> part_of(int64_t extent, int part, int parts) {
  return {(extent * part + parts - 1) / parts, (extent * (part + 1) + parts - 1) / parts};
}
inline std::pair<int64_t, int64_t> part_of(int64_t extent, const Launch& launch) {
  return part_of(extent, launch.part, launch.parts);
}

/// A prepared kernel. run() is called by several threads at once, each with its parts.
class Executable {
 public:
  virtual ~Executable() = default;

  /// One phase of one part.
  virtual void run(const Launch& launch) const = 0;
  virtual size_t workspace_bytes() const { return 0; }

  /// A run is this many calls of run() for each part, with Launch::phase 0, 1, ..; the threads meet
  /// between two. So partial results, left in the workspaces, can be joined.
  virtual int phases() const { return 1; }

  /// All phases of one thread's parts. Sets part and phase of `launch`.
  virtual void play(Launch& launch, const Parts& parts) const {
    const int phases = this->phases();
    for (launch.phase = 0; launch.phase < phases; ++launch.phase) {
      if (launch.phase > 0) launch.meet();
      for (int i = 0; i < parts.count; ++i) {
        launch.part = parts.first + i * parts.stride;
        run(launch);
      }
    }
  }

  virtual const char* provider() const { return "tandem"; }
};

using ExecutablePtr = std::shared_ptr<const Executable>;

/// An executable from a callable over Launch.
template <class Run>
ExecutablePtr executable(Run run) {
  class Callable final : public Executable {
   public:
    explicit Callable(Run run) : run_(std::move(run)) {}
    void run(const Launch& launch) const override { run_(launch); }

   private:
    Run run_;
  };
  return std::make_shared<Callable>(std::move(run));
}

/// Prepares a kernel. `signature` has no symbolic sizes, `parts` is the number of threads that will
/// share a run.
class PrepareFn {
 public:
  using Function = std::function<ExecutablePtr(const Signature& signature,
                                               const devices::Device& device, int parts)>;

  template <class F>
  requires std::is_invocable_r_v<ExecutablePtr, F, const Signature&, const devices::Device&, int>
  PrepareFn(F f) : function_(std::move(f)) {}

  /// A kernel that is the same on every device of its backend does not ask which it is.
  template <class F>
  requires std::is_invocable_r_v<ExecutablePtr, F, const Signature&, int> PrepareFn(F f)
      : function_([f = std::move(f)](const Signature& signature, const devices::Device&,
                                     int parts) { return f(signature, parts); }) {}

  ExecutablePtr operator()(const Signature& signature, const devices::Device& device,
                           int parts) const {
    return function_(signature, device, parts);
  }

 private:
  Function function_;
};

}  // namespace tandem::op
