#include "graph/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "graph/function_placement.h"
#include "graph/same_everywhere.h"
#include "op/registry.h"
#include "op/row_sharing.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::graph {
namespace {

thread_local Trace* current_trace = nullptr;
thread_local int parts_scopes = 0;
thread_local int second_passes = 0;

/// Whether a value was computed of what all replicas have alike, such as sums over them.
bool is_same_everywhere(const Graph& graph, ValueId value) {
  SameEverywhere same(graph);
  for (const Node& node : graph.nodes) same.add(node);
  return same.contains(value);
}

class CurrentTrace {
 public:
  CurrentTrace(Trace& trace, core::BatchRows* rows)
      : interpreter_(trace),
        rows_(rows),
        sharing_(trace.model()),
        former_(std::exchange(current_trace, &trace)) {}
  ~CurrentTrace() { current_trace = former_; }
  CurrentTrace(const CurrentTrace&) = delete;
  CurrentTrace& operator=(const CurrentTrace&) = delete;

 private:
  op::InterpreterScope interpreter_;
  core::BatchRows::Scope rows_;
  op::RowSharingScope sharing_;
  Trace* former_;
};

uint64_t new_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

Trace::Trace(int replicas, std::optional<int64_t> rows, int model, bool in_time)
    : id_(new_id()), replicas_(replicas), model_(model), in_time_(in_time), rows_(rows) {}

Trace::Trace(Trace& parent, const char* op, RegionKind kind)
    : id_(new_id()),
      replicas_(parent.replicas_),
      model_(parent.model_),
      in_time_(parent.in_time_),
      parent_(&parent),
      op_(op),
      kind_(kind) {}

Trace* Trace::current() { return current_trace; }

Trace::Suspension::Suspension() : suspended_(std::exchange(current_trace, nullptr)) {}
Trace::Suspension::~Suspension() { current_trace = suspended_; }

Graph Trace::of(const TensorFn& f, const op::TensorTypes& arguments, int replicas,
                std::optional<int64_t> rows, int model, bool in_time) {
  if (current_trace != nullptr) {
    throw FailedPrecondition(
        "a function is being traced, and inside it another cannot be traced on its own, as "
        "trace() and strategy.run would; call it, which makes it part of the trace");
  }
  Trace trace(replicas, rows, model, in_time);
  Tensors inputs;
  for (const op::TensorType& type : arguments) inputs.push_back(trace.new_argument(type));
  const CurrentTrace scope(trace, &trace);
  for (const Tensor& result : f(inputs)) {
    if (!result.defined()) throw InvalidArgument("function: a result is an empty Tensor");
    if (trace.cut_axis(result) >= 0) {
      throw InvalidArgument(fmt::format(
          "function: a result is a part of a value, cut along axis {}; join its parts with "
          "keras::distribution::gather",
          trace.cut_axis(result)));
    }
    trace.graph_.results.push_back(trace.value_of(op::with_all_rows(result)));
  }
  return std::move(trace.graph_);
}

Trace::Nested Trace::trace_region(const char* op, RegionKind kind, const RegionFn& f,
                                  const op::TensorTypes& arguments) {
  Trace inner(*this, op, kind);
  Tensors inputs;
  for (const op::TensorType& type : arguments) inputs.push_back(inner.new_argument(type));
  Nested nested;
  {
    const CurrentTrace scope(inner, core::BatchRows::current());
    const structure::Flat results = f(inputs);
    for (const Tensor& result : results.tensors) {
      if (!result.defined()) throw InvalidArgument(fmt::format("{}: a result is empty", op));
      inner.graph_.results.push_back(inner.value_of(op::with_all_rows(result)));
    }
    nested.rest = results.rest;
  }
  for (const auto& [outside, inside] : inner.captures_) nested.captured.push_back(outside);
  nested.ranges = std::move(inner.range_operands_);
  nested.writes = !inner.written_.empty();
  nested.region.graph = std::move(inner.graph_);
  return nested;
}

int64_t Trace::fix() {
  if (!rows_) {
    throw FailedPrecondition(
        replicas_ > 1
            ? "a size that depends on the rows of the batch is read as a number inside "
              "strategy.run, where the replicas differ in it; use shape(x), the sizes as a tensor, "
              "or -1 in reshape"
            : "a size that depends on the rows of the batch is read as a number before there is a "
              "batch; use shape(x), the sizes as a tensor, or -1 in reshape");
  }
  graph_.rows = rows_;
  return *rows_;
}

Tensor Trace::new_argument(const op::TensorType& type) {
  const ValueId value = graph_.add_value({.source = Value::Source::argument, .type = type});
  graph_.arguments.push_back(value);
  return symbolic(value);
}

bool Trace::is_around(uint64_t trace) const {
  for (const Trace* outer = parent_; outer != nullptr; outer = outer->parent_) {
    if (outer->id_ == trace) return true;
  }
  return false;
}

Tensor Trace::capture(const Tensor& outside) {
  for (const auto& [known, inside] : captures_) {
    if (known.body() == outside.body()) return inside;
  }
  if (parent_->cut_axis(outside) >= 0) {
    throw InvalidArgument(
        fmt::format("{}: it uses a part of a value, cut along axis {}; join its parts before, with "
                    "keras::distribution::gather",
                    op_, parent_->cut_axis(outside)));
  }
  captures_.emplace_back(outside, new_argument(type_of(outside)));
  return captures_.back().second;
}

const Tensor* Trace::captured_as(const Tensor& inside) const {
  for (const auto& [outside, known] : captures_) {
    if (known.body() == inside.body()) return &outside;
  }
  return nullptr;
}

/// Random numbers depend on where among the calls that draw some a call stands, as in eager code:
/// not on what passes make of it, nor on the collectives that replicas have besides.
int Trace::next_random_call(const Node& node) {
  if (repeated_) return *repeated_;
  if (!node.op().is_random) return 0;
  return static_cast<int>(root().graph_.random_calls++);
}

Tensor Trace::symbolic(ValueId value) const {
  auto body = std::make_shared<TensorBody>();
  body->dtype = graph_.at(value).type.dtype;
  body->shape = graph_.at(value).type.shape.of_batch();
  body->trace = id_;
  body->value = static_cast<int>(value);
  return Tensor(std::move(body));
}

ValueId Trace::value_of(const Tensor& tensor) {
  const TensorBody* body = tensor.body().get();
  if (body->trace == id_) return ValueId{body->value};
  if (is_around(body->trace)) return ValueId{capture(tensor).body()->value};
  if (body->trace != 0) {
    throw FailedPrecondition(
        "function: a tensor of another function's trace, or of a branch or loop that has ended, is "
        "used; pass it as an argument, return it as a result");
  }
  const auto [known, added] = constants_.try_emplace(body, kNoValue);
  if (added) {
    known->second = graph_.add_value({.source = Value::Source::constant,
                                      .type = {body->dtype, body->shape},
                                      .constant = tensor});
  }
  return known->second;
}

ValueId Trace::value_of(const op::RangeOperand& operand) {
  const StoreRange& range = operand.range;
  const auto [known, added] =
      ranges_.try_emplace({range.block.get(), range.offset, range.stride, range.part}, kNoValue);
  if (added) {
    if (op_ != nullptr && !operand.range.is_same_for_all()) {
      throw FailedPrecondition(fmt::format(
          "{}: it uses variable {}, of which each replica has its own value; read it before", op_,
          operand.range.name()));
    }
    known->second = graph_.add_value(
        {.source = Value::Source::range, .type = operand.type, .range = operand.range});
    range_operands_.push_back(operand);
  }
  return known->second;
}

ValueId Trace::aggregate(const Node& assign, const op::RangeOperand& variable) {
  using enum VariableAggregation;
  // A constant is the same on every replica.
  if (graph_.at(assign.inputs[0]).source == Value::Source::constant) return assign.inputs[0];
  const Tensor value = symbolic(assign.inputs[0]);
  switch (variable.aggregation) {
    case none:
      if (is_same_everywhere(graph_, assign.inputs[0])) return assign.inputs[0];
      throw InvalidArgument(
          fmt::format("{} of variable {} inside strategy.run: the replicas' values may differ; "
                      "give the variable an aggregation (sum, mean, only_first_replica)",
                      assign.op().name, variable.range.name()));
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

void Trace::check_allowed(const op::Signature& signature) const {
  const std::string& name = signature.op->name;
  if (current_device_scope() != scope_) {
    if (op_ != nullptr) {
      throw FailedPrecondition(
          fmt::format("{}: a device scope inside {}, which runs on one device; open it around {}",
                      name, op_, op_));
    }
  }
  if (op_ == nullptr) return;
  if (signature.op->is_collective) {
    throw FailedPrecondition(fmt::format(
        "{} inside {}: replicas that decide differently would wait for each other for ever; reduce "
        "before or after it",
        name, op_));
  }
  if (replicas_ > 1 && signature.op->writes_ranges) {
    throw FailedPrecondition(fmt::format(
        "{} inside {} inside strategy.run: replicas that decide differently would not agree on the "
        "variable; select the value with where() and assign it outside",
        name, op_));
  }
}

Trace::SecondPass::SecondPass(Trace& trace, uint64_t first)
    : root_(trace.root()), calls_(std::exchange(root_.graph_.random_calls, first)) {
  ++second_passes;
}
Trace::SecondPass::~SecondPass() {
  --second_passes;
  root_.graph_.random_calls = calls_;
}

Trace::PartsScope::PartsScope() { ++parts_scopes; }
Trace::PartsScope::~PartsScope() { --parts_scopes; }

int Trace::cut_axis(const Tensor& tensor) const {
  if (cut_axes_.empty() || tensor.body()->trace != id_) return -1;
  const auto found = cut_axes_.find(ValueId{tensor.body()->value});
  return found == cut_axes_.end() ? -1 : found->second;
}

void Trace::set_cut_axis(const Tensor& tensor, int axis) { cut_axes_[value_of(tensor)] = axis; }

/// The axis along which the results of a call are cut since inputs are; -1: they are whole.
/// Gradients are written for the calls that they belong to, which knew what they read.
int Trace::cut_of_results(const op::Signature& signature, const Tensors& inputs) const {
  const bool is_gradient = op::NearScope::current() != nullptr && second_passes == 0;
  const bool knows = parts_scopes > 0 || is_gradient;
  if (cut_axes_.empty() || knows) return -1;
  int from_end = 0;  // Inputs broadcast, so axes are counted from the last.
  for (const Tensor& input : inputs) {
    if (const int axis = cut_axis(input); axis >= 0) from_end = input.rank() - axis;
  }
  if (from_end == 0) return -1;
  const auto is_alike = [&](const Tensor& input) {
    if (const int axis = cut_axis(input); axis >= 0) return input.rank() - axis == from_end;
    return input.rank() < from_end || input.shape().extent(input.rank() - from_end) == 1;
  };
  const std::string& name = signature.op->name;
  const bool by_element =
      signature.op->pointwise || name == "cast" || name == "identity" || name == "recompute_input";
  if (by_element && std::ranges::all_of(inputs, is_alike)) {
    return signature.outputs[0].shape.rank() - from_end;
  }
  throw InvalidArgument(fmt::format(
      "{}: it is given a part of a value, as a layer leaves it whose kernel is cut over several "
      "devices; join the parts before, with keras::distribution::gather",
      signature.str()));
}

/// A variable of which replicas have parts stays as it is while a region runs, which replicas may
/// go through differently: they join its parts around it.
std::optional<Tensor> Trace::interpret_around(const op::Signature& signature, const Tensors& inputs,
                                              const op::RangeOperands& ranges) {
  if (parent_ == nullptr) return std::nullopt;
  const std::string& name = signature.op->name;
  if (name == "read_variable" && replicas_ > 1 && ranges[0].range.is_own_part()) {
    return parent_->interpret(signature, inputs, ranges)[0];
  }
  const Tensor* part = name == "join_parts" ? captured_as(inputs[0]) : nullptr;
  if (part == nullptr) return std::nullopt;
  return parent_->interpret(signature, {*part}, ranges)[0];
}

Tensors Trace::interpret(const op::Signature& signature, const Tensors& inputs,
                         const op::RangeOperands& ranges) {
  if (const std::optional<Tensor> around = interpret_around(signature, inputs, ranges)) {
    return {capture(*around)};
  }
  check_allowed(signature);
  const int cut = cut_of_results(signature, inputs);
  // A variable read twice with no assign between is one value.
  const bool is_read = signature.op->name == "read_variable";
  if (is_read) {
    const ValueId range = value_of(ranges[0]);
    const auto known = current_reads_.find(range);
    if (known != current_reads_.end()) return {known->second};
    if (parent_ != nullptr && kind_ == RegionKind::once && !written_.contains(range)) {
      return {capture(parent_->interpret(signature, inputs, ranges)[0])};
    }
  }
  Tensors outputs = add({.signature = signature}, inputs, ranges);
  if (is_read) current_reads_[value_of(ranges[0])] = outputs[0];
  if (cut >= 0) set_cut_axis(outputs[0], cut);
  return outputs;
}

Tensors Trace::add(Node node, const Tensors& inputs, const op::RangeOperands& ranges) {
  for (const Tensor& input : inputs) node.inputs.push_back(value_of(input));
  for (const auto& range : ranges) node.ranges.push_back(value_of(range));
  node.random_call = next_random_call(node);
  if (const Tensor* near = op::NearScope::current(); near && near->body()->trace == id_) {
    node.near = ValueId{near->body()->value};
  }
  if (current_device_scope() != scope_) {
    if (const devices::DevicePtr* asked = asked_by_scope()) node.device = *asked;
  }

  // Replicas agree on what to assign before one of them does it.
  if (replicas_ > 1 && node.op().name.starts_with("assign") && ranges[0].range.is_same_for_all()) {
    node.inputs[0] = aggregate(node, ranges[0]);
  }
  if (node.op().writes_ranges) {
    for (ValueId range : node.ranges) {
      std::erase_if(current_reads_, [&](const auto& read) {
        return overlap(graph_.at(read.first).range, graph_.at(range).range);
      });
      written_.insert(range);
    }
  }
  Tensors outputs;
  for (const op::TensorType& type : node.signature.outputs) {
    type.shape.total_extent();  // Throws where several axes depend on the rows.
    node.outputs.push_back(graph_.add_value({.source = Value::Source::node, .type = type}));
    outputs.push_back(symbolic(node.outputs.back()));
  }
  graph_.nodes.push_back(std::move(node));
  return outputs;
}

}  // namespace tandem::graph
