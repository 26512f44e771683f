/// Turns the calls of a thread into a Graph instead of running them.
#pragma once

#include <functional>
#include <map>
#include <unordered_map>

#include "graph/graph.h"

namespace tandem::graph {

using TensorFn = std::function<Tensors(const Tensors&)>;

class Trace final : public op::Interpreter {
 public:
  /// Calls `f` with symbolic arguments of these types and returns what it did. `replicas` is how
  /// many will run the graph together. Traces do not nest: a function called while tracing becomes
  /// part of the trace.
  static Graph of(const TensorFn& f, const op::TensorTypes& arguments, int replicas = 1);

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

  Tensors interpret(const op::Signature& signature, const Tensors& inputs,
                    const op::RangeOperands& ranges) override;

 private:
  explicit Trace(int replicas);

  Tensor symbolic(int value) const;
  int aggregated(const Node& assign, const op::RangeOperand& variable);
  int value_of(const Tensor& tensor);
  int value_of(const op::RangeOperand& operand);

  const uint64_t id_;
  const int replicas_;
  const DeviceSpec scope_ = current_device_scope();
  Graph graph_;
  std::unordered_map<const TensorBody*, int> constants_;
  std::map<std::pair<const StoreBlock*, int64_t>, int> ranges_;
  std::map<int, Tensor> current_reads_;  // By range value, until the range is written.
};

}  // namespace tandem::graph
