/// Turns the calls of a thread into a Graph instead of running them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "core/batch_rows.h"
#include "graph/graph.h"
#include "tandem/structure.h"

namespace tandem::graph {

using TensorFn = std::function<Tensors(const Tensors&)>;

class Trace final : public op::Interpreter, private core::BatchRows {
 public:
  /// Calls `f` with symbolic arguments of these types and returns what it did. `replicas` is how
  /// many will run the graph together, `rows` how many rows each of them has at present, if they
  /// agree: when `f` reads that number, the graph holds for it alone. `model` neighbours among them
  /// have the same rows, and each may have a part of a value. Replicas `in_time` are those of
  /// micro-batches, which run one after another. Traces do not nest: a function called while
  /// tracing becomes part of the trace.
  static Graph of(const TensorFn& f, const op::TensorTypes& arguments, int replicas = 1,
                  std::optional<int64_t> rows = {}, int model = 1, bool in_time = false);

  /// The trace of this thread, or null.
  static Trace* current();

  /// While it lives, this thread has no trace.
  class Suspension {
   public:
    Suspension();
    ~Suspension();
    Suspension(const Suspension&) = delete;
    Suspension& operator=(const Suspension&) = delete;

   private:
    Trace* suspended_;
  };

  int replicas() const { return replicas_; }
  /// The number of neighbours that have the same rows.
  int model() const { return model_; }
  /// True where the replicas are those of micro-batches, be it of one alone.
  bool is_in_time() const { return in_time_; }

  /// The axis of a value of which each of those neighbours has a part; -1: all have the whole.
  /// Calls that work element by element keep it, and others throw InvalidArgument for such a value.
  int cut_axis(const Tensor& tensor) const;
  void set_cut_axis(const Tensor& tensor, int axis);

  /// While it lives, calls of this thread may read parts of values, and what they make is whole.
  class PartsScope {
   public:
    PartsScope();
    ~PartsScope();
    PartsScope(const PartsScope&) = delete;
    PartsScope& operator=(const PartsScope&) = delete;
  };

  /// What a region is traced for.
  enum class RegionKind {
    once,   ///< Runs at most once, where its node stands: it may use what variables were then.
    loops,  ///< Runs again and again.
  };

  /// A region of this trace, and what it takes from around it.
  struct Nested {
    Region region;
    Tensors captured;  ///< The region's inputs after `arguments`.
    op::RangeOperands ranges;
    bool writes = false;  ///< The region writes some of the ranges.
    std::string rest;     ///< What of the results is not tensors.
  };
  using RegionFn = std::function<structure::Flat(const Tensors&)>;

  /// Calls `f` with symbolic arguments of these types. `op` names the control flow in errors.
  Nested trace_region(const char* op, RegionKind kind, const RegionFn& f,
                      const op::TensorTypes& arguments);

  /// Adds a call that op::apply does not know: control flow.
  Tensors add(Node node, const Tensors& inputs, const op::RangeOperands& ranges);

  /// While it lives, calls draw the random numbers of the call that they repeat.
  class Repetition {
   public:
    Repetition(Trace& trace, int random_call) : trace_(trace) { trace_.repeated_ = random_call; }
    ~Repetition() { trace_.repeated_.reset(); }
    Repetition(const Repetition&) = delete;
    Repetition& operator=(const Repetition&) = delete;

   private:
    Trace& trace_;
  };

  /// The random calls so far.
  uint64_t random_calls() const { return root().graph_.random_calls; }

  /// While it lives, calls repeat those that were made from random call `first` on, and draw the
  /// same numbers; a gradient's calls are then those of a forward pass.
  class SecondPass {
   public:
    SecondPass(Trace& trace, uint64_t first);
    ~SecondPass();
    SecondPass(const SecondPass&) = delete;
    SecondPass& operator=(const SecondPass&) = delete;

   private:
    Trace& root_;
    const uint64_t calls_;
  };

  /// The tensor around a nested trace that `inside` stands for there, or null. By it recorders
  /// learn which variables the nested trace reads.
  const Tensor* captured_as(const Tensor& inside) const;

  Tensors interpret(const op::Signature& signature, const Tensors& inputs,
                    const op::RangeOperands& ranges) override;
  bool is_replica() const override { return replicas_ > 1; }

 private:
  Trace(int replicas, std::optional<int64_t> rows, int model, bool in_time);
  Trace(Trace& parent, const char* op, RegionKind kind);

  Trace& root() { return parent_ == nullptr ? *this : parent_->root(); }
  const Trace& root() const { return parent_ == nullptr ? *this : parent_->root(); }
  int64_t fix() override;
  Tensor symbolic(ValueId value) const;
  Tensor new_argument(const op::TensorType& type);
  bool is_around(uint64_t trace) const;
  std::optional<Tensor> interpret_around(const op::Signature& signature, const Tensors& inputs,
                                         const op::RangeOperands& ranges);
  Tensor capture(const Tensor& outside);
  void check_allowed(const op::Signature& signature) const;
  int cut_of_results(const op::Signature& signature, const Tensors& inputs) const;
  int next_random_call(const Node& node);
  ValueId aggregate(const Node& assign, const op::RangeOperand& variable);
  ValueId value_of(const Tensor& tensor);
  ValueId value_of(const op::RangeOperand& operand);

  const uint64_t id_;
  const int replicas_;
  const int model_;
  const bool in_time_;
  const std::optional<int64_t> rows_;  // The rows of each replica, where they are known.
  Trace* const parent_ = nullptr;
  const char* const op_ = nullptr;  // The name of the control flow that this is a region of.
  const RegionKind kind_ = RegionKind::once;
  const DeviceSpec scope_ = current_device_scope();
  Graph graph_;
  std::unordered_map<const TensorBody*, ValueId> constants_;
  // By block, offset, stride and part.
  std::map<std::tuple<const StoreBlock*, int64_t, int64_t, int>, ValueId> ranges_;
  // The value that was read from each range, until the range is written.
  std::map<ValueId, Tensor> current_reads_;
  std::set<ValueId> written_;  // The ranges that were written.
  op::RangeOperands range_operands_;
  // Pairs of a tensor outside and its argument inside.
  std::vector<std::pair<Tensor, Tensor>> captures_;
  std::optional<int> repeated_;
  std::map<ValueId, int> cut_axes_;
};

}  // namespace tandem::graph
