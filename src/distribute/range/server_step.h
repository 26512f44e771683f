/// A function of the user as the workers of parameter servers run it. Its gradients, which
/// apply_gradients would have applied, are further results, and the variables that servers change
/// are the worker's own copies:
///
///   before   w, b of the strategy      loss                 sgd_update(dw, db; w, b)
///   after    the worker's w, b         loss, dw, db, true
///
/// What it assigns beside that, the sums of metrics for instance, it assigns to its copies; the
/// difference, or the new value, goes to the servers, too.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "core/tensor_type.h"
#include "distribute/range/gradient_sink.h"
#include "graph/graph.h"
#include "tandem/function.h"
#include "tensor/store.h"

namespace tandem::distribute {

/// What a task does with a step. Who only traces it, to know what it reads and changes, needs no
/// memory for that.
enum class StepUse { run, trace };

/// Copies of ranges of variables, made when they are asked for.
class RangeCopies {
 public:
  RangeCopies(devices::DevicePtr device, uint64_t owner, StepUse use)
      : device_(std::move(device)), owner_(owner), use_(use) {}

  /// One of which some rows alone are used takes memory for these alone, and none of the device's.
  StoreRange of(const StoreRange& range, bool by_rows = false);

  /// A place for the sum of this number, of such a type.
  StoreRange sum(size_t number, const TensorType& type);
  /// A place for the number of the share that is being done, an int32.
  StoreRange share();

 private:
  StoreRange small(const TensorType& type, const char* name) const;

  const devices::DevicePtr device_;
  const uint64_t owner_;
  const StepUse use_;
  std::map<std::pair<const StoreBlock*, int64_t>, std::pair<StoreRange, StoreRange>> copies_;
  std::vector<StoreRange> sums_;
  StoreRange share_{};
};

/// A variable that a step assigns.
struct AssignedVariable {
  StoreRange range;  ///< Where the strategy has it.
  enum class Change {
    add,  ///< The server adds what the worker has added.
    set,  ///< The server takes the worker's value.
  };
  Change change = Change::set;
  bool is_summed = true;  ///< Over the shares of a step; else the first one's counts.

  bool operator==(const AssignedVariable&) const = default;
  size_t bytes() const { return static_cast<size_t>(range.count) * size_of(range.block->dtype()); }
};

class ServerStep {
 public:
  ServerStep(const FlatFunction& f, int shares);

  /// Its results are those of the user's function, then for each call of apply_gradients the
  /// gradients, those of some rows with the rows' numbers behind them, and the condition.
  const FlatFunction& function() const { return function_; }

  /// Computes the numbers of the rows that function() will read of each variable whose gradients
  /// are those of some rows; kAllRows alone where it reads more than rows.
  const FlatFunction& rows_function() const { return rows_function_; }
  static constexpr int64_t kAllRows = -1;
  /// Computes what function() takes as sums over all shares of a batch, for one of them. These
  /// depend on the batch alone, such as the number of examples that a loss with a mask counts, and
  /// each worker has the whole batch.
  const FlatFunction& sums_function() const { return sums_function_; }
  /// Their types; known after the first trace.
  const TensorTypes& sums() const { return sums_; }
  int shares() const { return shares_; }
  /// Whether gradients of a variable are those of some rows, by its place among all variables, as
  /// the first trace has it; those of others are made like these.
  const std::vector<bool>& has_row_gradients() const { return has_row_gradients_; }
  bool has_any_row_gradients() const;
  /// Whether the first trace reads some rows alone, too. Others may not.
  const std::vector<bool>& reads_rows() const { return reads_rows_; }
  bool reads_any_rows() const;

  /// Is called with each trace of function() before it is compiled. Throws Unimplemented where what
  /// the step computes depends on more than sums of what several workers compute.
  void adapt(graph::Graph& graph, RangeCopies& copies);

  /// What is known after the first trace.
  size_t results() const { return results_; }
  const std::vector<PushedGradients>& pushed() const { return pushed_; }
  const std::vector<AssignedVariable>& assigned() const { return assigned_; }
  bool is_traced() const { return is_traced_; }
  /// Whether servers clip gradients by norms.
  bool clips() const;
  /// Whether workers that share a batch need sums of what all of them compute.
  bool meets() const { return meets_; }
  bool trains() const { return !pushed_.empty(); }
  /// Throws InvalidArgument unless it does.
  void check_trains() const;
  /// How many random numbers a run draws.
  uint64_t random_calls() const { return random_calls_; }

 private:
  Tensors trace(const FlatFunction& f, const Tensors& arguments);
  Tensors trace_rows(const FlatFunction& f, const Tensors& arguments);
  void check_like_first(const std::vector<PushedGradients>& pushed, size_t results) const;
  void note_rows_read(const graph::Graph& graph);
  void mark_all_rows(graph::Graph& graph) const;
  std::set<size_t> shared_collectives(const graph::Graph& graph) const;
  /// The places of collectives.
  struct SharedSums {
    std::set<size_t> of_batch;     // Sums of what depends on the batch alone.
    std::set<size_t> of_computed;  // Sums of what workers compute, who meet for it.
  };
  SharedSums shared_sums(const graph::Graph& graph) const;
  void use_sums(graph::Graph& graph, const std::set<size_t>& places, RangeCopies& copies);
  void use_share_number(graph::Graph& graph, RangeCopies& copies) const;
  bool is_changed_by_servers(const StoreRange& range) const;
  bool is_read_by_rows(const StoreRange& range) const;
  void use_copies(graph::Graph& graph, RangeCopies& copies) const;

  const int shares_;
  bool is_traced_ = false;
  bool meets_ = false;
  uint64_t random_calls_ = 0;
  size_t results_ = 0;
  std::vector<PushedGradients> pushed_;  // Without the tensors of the trace.
  std::vector<AssignedVariable> assigned_;
  std::vector<bool> has_row_gradients_;
  std::vector<bool> reads_rows_;
  TensorTypes sums_;
  const FlatFunction function_;
  const FlatFunction rows_function_;
  const FlatFunction sums_function_;
};

/// The steps of users' functions, each made once.
class ServerSteps {
 public:
  explicit ServerSteps(int shares) : shares_(shares) {}

  ServerStep& of(const FlatFunction& f);

 private:
  const int shares_;
  std::map<const void*, std::unique_ptr<ServerStep>> steps_;  // By the body of the function,
  std::vector<FlatFunction> functions_;                       // which is kept.
};

}  // namespace tandem::distribute
