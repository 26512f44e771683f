/// The executions of one program. Calls from several threads take turns on the first, or run side
/// by side, each on one of its own, where the program writes no variables.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "execution/execution.h"

namespace tandem::graph {

class Executions {
 public:
  Executions(std::shared_ptr<const Program> program, ReplicasPtr replicas);

  struct Held {
    std::shared_ptr<Execution> execution;
    std::unique_lock<core::TimedMutex> lock;
  };
  /// One that no other thread uses; makes one if it may. Throws DeadlineExceeded when a call of
  /// `function` from another thread does not end.
  Held take(const std::string& function);

  /// The first, for the thread alone.
  Held take_first(const std::string& function);
  std::shared_ptr<Execution> first() const;

  /// A thread may be stuck in `execution`: another one takes its place.
  void give_up(const Execution& execution);

 private:
  Held take_free();
  std::shared_ptr<Execution> create() const;

  const std::shared_ptr<const Program> program_;
  const ReplicasPtr replicas_;
  const std::shared_ptr<Plans> plans_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Execution>> all_;
};

}  // namespace tandem::graph
