/// The programs of a traced function, one per kind of arguments and list of devices.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "execution/compiled_segment.h"
#include "execution/pipeline/pipeline_run.h"
#include "execution/replicas.h"
#include "graph/trace.h"
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
  std::span<const Argument> tensors{};
  std::string_view rest = {};       ///< What of them is not tensors; see structure.h.
  const void* structure = nullptr;  ///< The structure that the function rebuilds from them.
  int64_t rows = 1;  ///< The leading size of the batch, on each replica, or kUnequal.

  /// Which arguments are part of the batch.
  enum class Batch {
    by_size,      ///< Those whose leading size is `rows`.
    as_declared,  ///< Those that `declared` has with any number of rows.
    by_replica,   ///< Those that differ between the replicas.
  };
  Batch batch = Batch::by_size;
  std::span<const TensorSpec> declared{};

  /// The value of `rows` where replicas have different numbers of rows.
  static constexpr int64_t kUnequal = -1;

  /// An argument as the first replica has it, or where it is split, all of it.
  const Tensor& tensor(size_t argument) const { return tensors[argument].of(0); }
  bool is_batched(size_t argument) const;
};

/// The arguments of a call on one device.
ArgumentList argument_list(std::span<const Tensor> tensors);

/// The size of the batch in a call on one device: that of the first argument with a leading axis.
int64_t leading_size(std::span<const Argument> arguments);

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
  /// Where replicas are micro-batches, instead of segments.
  std::unique_ptr<PipelineRun> pipeline;

  bool fits(const Arguments& given, const FunctionTarget& wanted) const;
  bool is_split(size_t argument) const { return arguments[argument].shape.is_symbolic(); }
};

using ConcreteFunctionPtr = std::shared_ptr<ConcreteFunction>;

class FunctionBody {
 public:
  using StructuredFn = FlatFunction::StructuredFn;
  FunctionBody(StructuredFn f, FunctionOptions options);

  const StructuredFn& original() const { return f_; }

  /// A call that has run. As long as it lives, no other call overwrites its results.
  struct Called {
    ConcreteFunctionPtr concrete;
    Results results{};  ///< Where the function is one segment,
    Tensors tensors{};  ///< and where it is several: all tensors of the call.

    size_t count() const { return concrete->results.size(); }
    Tensor operator[](size_t i) const {
      return results.is_empty() ? tensors[static_cast<size_t>(concrete->results[i])]
                                : results.at(0, i);
    }
  };
  /// Runs the function on one device.
  Called call(Arguments arguments);

  /// Makes the program for these arguments on one device.
  void trace(Arguments arguments);

  /// The program for these arguments, traced if there is none yet.
  ConcreteFunctionPtr find_or_compile(const Arguments& arguments, const FunctionTarget& target);

  /// Throws InvalidArgument unless these are what the input signature declares, if there is one.
  void check_signature(const Arguments& arguments) const;

  /// Runs a function of one segment, or a pipeline.
  Results run(const ConcreteFunction& concrete, const RunArguments& arguments) const;

  int trace_count() const { return trace_count_; }
  std::string explain() const;
  MemoryPlan memory_plan(int64_t rows) const;
  /// The same for one of the programs.
  MemoryPlan memory_plan(const ConcreteFunction& concrete, int64_t rows) const;

  /// Lets go of a program that will not be asked for again.
  void forget(const ConcreteFunction& concrete);

 private:
  ConcreteFunctionPtr find_for_scope(Arguments& arguments);
  void take_declared_batch(Arguments& arguments) const;
  std::unique_lock<core::TimedMutex> lock() const;
  std::vector<ConcreteFunctionPtr> concrete_functions() const;
  ConcreteFunctionPtr compile(const Arguments& arguments, const FunctionTarget& target);
  Graph trace_graph(const Arguments& arguments, ConcreteFunction& concrete,
                    const Replicas* replicas);
  void warn_of_retraces(const ConcreteFunction& latest);

  const StructuredFn f_;
  const FunctionOptions options_;
  mutable core::TimedMutex mutex_;
  std::atomic<std::thread::id> tracer_;  // Holds the mutex, and may ask for programs all the same.
  std::vector<ConcreteFunctionPtr> concrete_functions_;
  std::atomic<int> trace_count_{0};
  bool has_traced_ = false;  // Variables may be created until then.
  uint64_t calls_ = 0;
  std::vector<uint64_t> trace_calls_;  // Which calls made the latest traces.
  size_t traces_to_warn_of_ = 5;
};

}  // namespace tandem::graph
