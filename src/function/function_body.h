/// The programs of a traced function, one per kind of arguments and list of devices.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "execution/compiled_segment.h"
#include "execution/replicas.h"
#include "graph/trace.h"
#include "profile/span.h"
#include "tandem/error.h"
#include "tandem/function.h"

namespace tandem::graph {

/// Where a function shall run: on replicas, on a device, or (both null) where its variables and the
/// default placement say.
struct FunctionTarget {
  ReplicasPtr replicas{};
  devices::DevicePtr device{};
  bool operator==(const FunctionTarget&) const = default;
};

/// What a function is called with, as far as its trace is concerned.
struct Arguments {
  std::span<const Tensor> tensors;
  std::string_view rest = {};       ///< What of them is not tensors; see structure.h.
  const void* structure = nullptr;  ///< The structure that the function rebuilds from them.
  int64_t rows = 1;  ///< The leading size of the batch, on each replica, or kUnequal.

  /// Whether the argument at an index is part of the batch; without it, those whose leading size is
  /// `rows` are.
  std::function<bool(size_t)> batched = {};

  /// The value of `rows` where replicas have different numbers of rows.
  static constexpr int64_t kUnequal = -1;

  bool is_batched(size_t argument) const;
};

/// All arguments of a call on one device: the batch is as large as the first that has a leading
/// axis says.
Arguments arguments_of(std::span<const Tensor> tensors);

/// A function traced for arguments of these types, bound to devices.
struct ConcreteFunction {
  op::TensorTypes arguments;    // A leading -1 is the rows.
  std::optional<int64_t> rows;  // The only number that the trace holds for, if it read that.
  std::string rest;
  FunctionTarget target;
  std::shared_ptr<const void> structure;  // The structure of the results.
  std::vector<CompiledSegment> segments;  // One for replicas, and where nothing asks for more.
  // In a call of several segments, which of its tensors are the results.
  std::vector<int> results;

  bool fits(const Arguments& given, const FunctionTarget& wanted) const;
  bool is_split(size_t argument) const { return arguments[argument].shape.is_symbolic(); }
};

using ConcreteFunctionPtr = std::shared_ptr<ConcreteFunction>;

class FunctionBody {
 public:
  using StructuredFn = FlatFunction::StructuredFn;
  FunctionBody(StructuredFn f, FunctionOptions options);

  const StructuredFn& original() const { return f_; }

  /// Runs and leaves the results in `take`'s hands, as a function of their index and their number,
  /// before the next run may begin.
  template <class Take>
  ConcreteFunctionPtr call(Arguments arguments, Take take);

  /// Makes the program for these arguments on one device.
  void trace(Arguments arguments);

  /// The program for these arguments, traced if there is none yet.
  ConcreteFunctionPtr find_or_compile(const Arguments& arguments, const FunctionTarget& target);

  /// Throws InvalidArgument unless these are what the input signature declares, if there is one.
  /// With Arguments::batched, arguments of the batch have rows of their own on each replica.
  void check_signature(const Arguments& arguments) const;

  /// The execution of the first segment, and its lock. Functions of several segments have one,
  /// which is that of all segments.
  using Held = Executions::Held;
  Held hold(const ConcreteFunction& concrete) const;

  /// Runs a function of one segment. After a deadline has passed the execution that a stuck thread
  /// may still be in is forgotten.
  void run(ConcreteFunction& concrete, Execution& execution);

  int trace_count() const { return trace_count_; }
  std::string explain() const;
  MemoryPlan memory_plan(int64_t rows) const;

 private:
  ConcreteFunctionPtr find_for_scope(Arguments& arguments);
  void take_declared_batch(Arguments& arguments) const;
  std::unique_lock<core::TimedMutex> lock() const;
  std::vector<ConcreteFunctionPtr> concrete_functions() const;
  ConcreteFunctionPtr compile(const Arguments& arguments, const FunctionTarget& target);
  Graph trace_graph(const Arguments& arguments, ConcreteFunction& concrete, int replicas);
  void warn_of_retraces(const ConcreteFunction& latest);
  template <class Run>
  void run_guarded(const ConcreteFunction& concrete, const Execution& execution, Run run);

  const StructuredFn f_;
  const FunctionOptions options_;
  mutable core::TimedMutex mutex_;
  std::atomic<std::thread::id> tracer_;  // Holds the mutex, and may ask for programs all the same.
  std::vector<ConcreteFunctionPtr> concrete_functions_;
  std::atomic<int> trace_count_{0};
  bool has_traced_ = false;  // Variables may be created until then.
  uint64_t calls_ = 0;
  std::vector<uint64_t> trace_calls_;  // Which calls made the latest traces.
};

template <class Take>
ConcreteFunctionPtr FunctionBody::call(Arguments arguments, Take take) {
  ConcreteFunctionPtr found = find_for_scope(arguments);
  const Held held = hold(*found);
  Execution& execution = *held.execution;
  if (found->segments.size() > 1) {
    Tensors tensors;
    run_guarded(*found, execution, [&] {
      tensors = run_segments(found->segments, arguments.tensors, arguments.rows);
    });
    take([&](size_t i) { return tensors[static_cast<size_t>(found->results[i])]; },
         found->results.size());
    return found;
  }
  execution.set_shard(0, {.rows = arguments.rows}, arguments.rows);
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    execution.bind(0, static_cast<int>(i), arguments.tensors[i]);
  }
  run(*found, execution);
  take([&](size_t i) { return execution.result(0, static_cast<int>(i)); }, found->results.size());
  return found;
}

template <class Run>
void FunctionBody::run_guarded(const ConcreteFunction& concrete, const Execution& execution,
                               Run run) {
  const profile::Span step("step", profile::Activity::step);
  try {
    run();
  } catch (const DeadlineExceeded&) {
    concrete.segments[0].executions->give_up(execution);
    for (size_t i = 1; i < concrete.segments.size(); ++i) {
      Executions& later = *concrete.segments[i].executions;
      later.give_up(*later.first());
    }
    throw;
  }
}

}  // namespace tandem::graph
