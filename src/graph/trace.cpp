#include "graph/trace.h"

#include <atomic>
#include <utility>

#include "op/registry.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::graph {
namespace {

thread_local Trace* current_trace = nullptr;

class CurrentTrace {
 public:
  explicit CurrentTrace(Trace& trace) : interpreter_(trace) { current_trace = &trace; }
  ~CurrentTrace() { current_trace = nullptr; }
  CurrentTrace(const CurrentTrace&) = delete;
  CurrentTrace& operator=(const CurrentTrace&) = delete;

 private:
  op::InterpreterScope interpreter_;
};

}  // namespace

Trace::Trace(int replicas)
    : id_([] {
        static std::atomic<uint64_t> last{0};
        return ++last;
      }()),
      replicas_(replicas) {}

Trace* Trace::current() { return current_trace; }

Trace::Suspension::Suspension() : suspended_(std::exchange(current_trace, nullptr)) {}
Trace::Suspension::~Suspension() { current_trace = suspended_; }

Graph Trace::of(const TensorFn& f, const op::TensorTypes& arguments, int replicas) {
  if (current_trace != nullptr) {
    throw FailedPrecondition("strategy.run: called inside a function that is being traced");
  }
  Trace trace(replicas);
  Tensors inputs;
  for (const op::TensorType& type : arguments) {
    const int value = trace.graph_.add_value({.source = Value::Source::argument, .type = type});
    trace.graph_.arguments.push_back(value);
    inputs.push_back(trace.symbolic(value));
  }
  const CurrentTrace scope(trace);
  for (const Tensor& result : f(inputs)) {
    if (!result.defined()) throw InvalidArgument("function: a result is an empty Tensor");
    trace.graph_.results.push_back(trace.value_of(op::with_all_rows(result)));
  }
  return std::move(trace.graph_);
}

Tensor Trace::symbolic(int value) const {
  auto body = std::make_shared<TensorBody>();
  body->dtype = graph_.at(value).type.dtype;
  body->shape = graph_.at(value).type.shape;
  body->trace = id_;
  body->value = value;
  return Tensor(std::move(body));
}

int Trace::value_of(const Tensor& tensor) {
  const TensorBody* body = tensor.body().get();
  if (body->trace == id_) return body->value;
  if (body->trace != 0) {
    throw FailedPrecondition(
        "function: a tensor of another function's trace is used; pass it as an argument");
  }
  const auto [known, added] = constants_.try_emplace(body, -1);
  if (added) {
    known->second = graph_.add_value({.source = Value::Source::constant,
                                      .type = {body->dtype, body->shape},
                                      .constant = tensor});
  }
  return known->second;
}

int Trace::value_of(const op::RangeOperand& operand) {
  const auto [known, added] =
      ranges_.try_emplace({operand.range.block.get(), operand.range.offset}, -1);
  if (added) {
    known->second = graph_.add_value(
        {.source = Value::Source::range, .type = operand.type, .range = operand.range});
  }
  return known->second;
}

int Trace::aggregated(const Node& assign, const op::RangeOperand& variable) {
  using enum VariableAggregation;
  // A constant is the same on every replica.
  if (graph_.at(assign.inputs[0]).source == Value::Source::constant) return assign.inputs[0];
  const Tensor value = symbolic(assign.inputs[0]);
  switch (variable.aggregation) {
    case none:
      throw InvalidArgument(
          assign.op().name +
          " inside strategy.run: the replicas' values may differ; give the variable an "
          "aggregation (sum, mean, only_first_replica)");
    case sum:
      return value_of(op::apply_one(op::find_op("all_reduce"), {value}));
    case mean: {
      const Tensor total = op::apply_one(op::find_op("all_reduce"), {value});
      return value_of(total * (1.0 / replicas_));
    }
    case only_first_replica:
      return value_of(op::apply_one(op::find_op("broadcast"), {value}));
  }
  return assign.inputs[0];
}

Tensors Trace::interpret(const op::Signature& signature, const Tensors& inputs,
                         const op::RangeOperands& ranges) {
  if (current_device_scope() != scope_) {
    throw Unimplemented(
        signature.op->name +
        ": a device scope inside a function; a function runs on one device, open the "
        "scope around its call");
  }
  Node node{signature, {}, {}, {}};
  for (const Tensor& input : inputs) node.inputs.push_back(value_of(input));
  for (const auto& range : ranges) node.ranges.push_back(value_of(range));

  // Replicas agree on what to assign before one of them does it.
  if (replicas_ > 1 && signature.op->name.starts_with("assign")) {
    node.inputs[0] = aggregated(node, ranges[0]);
  }

  // A variable read twice with no assign between is one value.
  const bool is_read = signature.op->name == "read_variable";
  if (is_read) {
    const auto known = current_reads_.find(node.ranges[0]);
    if (known != current_reads_.end()) return {known->second};
  }
  for (size_t i = 0; i < node.ranges.size(); ++i) {
    if (signature.op->writes_range(i, node.ranges.size())) current_reads_.erase(node.ranges[i]);
  }

  Tensors outputs;
  for (const op::TensorType& type : signature.outputs) {
    node.outputs.push_back(graph_.add_value({.source = Value::Source::node, .type = type}));
    outputs.push_back(symbolic(node.outputs.back()));
  }
  if (is_read) current_reads_[node.ranges[0]] = outputs[0];
  graph_.nodes.push_back(std::move(node));
  return outputs;
}

}  // namespace tandem::graph
