/// One run of a program by one replica on a device with a queue.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "execution/bound_replica.h"

namespace tandem::graph {

/// The exception that is being handled, with `name` put before its message if there is one.
std::exception_ptr named_error(const std::string& name);

/// Whether a run has failed somewhere: what is still queued of it is then left undone.
class Failure {
 public:
  bool happened() const { return happened_.load(std::memory_order_acquire); }
  /// The first error stays.
  void keep(std::exception_ptr error);
  std::exception_ptr error() const;

 private:
  std::atomic<bool> happened_{false};
  mutable std::mutex mutex_;
  std::exception_ptr error_;
};

/// Each instruction is a piece of the queue's work. The run owns a copy of the addresses: the host
/// may bind the next one before this has begun.
class QueueRun : public std::enable_shared_from_this<QueueRun> {
 public:
  /// `owner` keeps the program and the stores alive. Errors begin with `name` if there is one.
  QueueRun(std::shared_ptr<const void> owner, const Program& program, const BoundReplica& replica,
           std::string name, std::shared_ptr<Failure> failure);

  void submit(size_t instruction, const Share& share = {});

 private:
  void run(size_t instruction, op::Launch launch) const;

  const std::shared_ptr<const void> owner_;
  const Program& program_;
  const devices::DevicePtr device_;
  const std::string name_;
  const std::shared_ptr<Failure> failure_;
  const op::StepScalars step_;
  const std::shared_ptr<const Plan> plan_;
  const std::shared_ptr<Buffer> arena_;
  const Tensors arguments_;
  const std::vector<std::shared_ptr<TensorBody>> results_;
  const std::vector<void*> slots_;
};

}  // namespace tandem::graph
