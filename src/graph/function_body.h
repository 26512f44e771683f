/// The programs of a traced function, one per kind of arguments and list of devices.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "graph/execution.h"
#include "graph/trace.h"

namespace tandem::graph {

using Devices = std::span<const devices::DevicePtr>;

/// What a function is called with, as far as its trace is concerned.
struct Arguments {
  std::span<const Tensor> tensors;
  int64_t rows = 1;                      ///< Leading size of the batch.
  std::optional<uint64_t> batched = {};  ///< A bit for each argument that is part of the batch;
                                         ///< without it, those whose leading size is `rows`.

  bool is_batched(size_t argument) const;
};

/// All arguments of a call on one device: the batch is as large as the first that has a leading
/// axis says.
Arguments arguments_of(std::span<const Tensor> tensors);

/// A function traced for arguments of these types, bound to devices.
struct Concrete {
  op::TensorTypes arguments;  // A leading -1 is the rows.
  std::vector<devices::DevicePtr>
      asked;  // What the caller asked for; empty: nothing in particular.
  std::vector<devices::DevicePtr> devices;  // Where it runs.
  std::shared_ptr<const Program> program;
  std::shared_ptr<Execution> execution;

  bool fits(const Arguments& given, Devices wanted) const;
  bool is_split(size_t argument) const { return arguments[argument].shape.is_symbolic(); }
  size_t results() const { return program->graph().results.size(); }
};

class FunctionBody {
 public:
  explicit FunctionBody(TensorFn f) : f_(std::move(f)) {}

  const TensorFn& original() const { return f_; }

  /// Runs on one device and leaves the results in `take`'s hands before the next run may begin.
  template <class Take>
  void call(std::span<const Tensor> arguments, Take take);

  /// The program for these arguments on these devices (one per replica), traced if there is none
  /// yet. Without devices: where the scope, the captured variables or the default placement say.
  std::shared_ptr<Concrete> concrete(const Arguments& arguments, Devices devices);

  std::shared_ptr<Execution> execution(const Concrete& concrete) const;

  /// Runs, and after a deadline has passed forgets the execution that a stuck thread may still be
  /// in.
  void run(Concrete& concrete, Execution& execution);

  int trace_count() const { return trace_count_; }
  std::string explain() const;

 private:
  std::shared_ptr<Concrete> traced(const Arguments& arguments, Devices devices);

  const TensorFn f_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Concrete>> concretes_;
  std::atomic<int> trace_count_{0};
};

}  // namespace tandem::graph
