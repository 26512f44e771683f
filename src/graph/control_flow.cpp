// `cond` and `while_loop`, outside of a trace and within one. Outside they just run. Within one,
// each branch or body is traced as a region, and a node that holds the regions is added to the
// trace:
//
//   cond(p, a, b)    becomes    %3 = cond(p, x, y)    then:      a's calls, over x and y
//                                                     otherwise: b's calls, over x and y
//
// The gradient of a `cond` is another `cond`, whose branches repeat the region's calls under a
// tape. That of a `while_loop` is a node of its own, which runs the loop again, keeps what its
// variables were, and goes back from the last iteration to the first:
//
//   while_loop_gradient    inputs:  variables.., gradients.., captured..
//                          regions: condition, body, and one iteration backward:
//                                   (variables before it, gradients) -> gradients
#include "tandem/control_flow.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/interruptible.h"
#include "graph/control_kernels.h"
#include "graph/trace.h"
#include "tandem/error.h"
#include "tandem/gradient_tape.h"
#include "tandem/ops.h"

namespace tandem::graph {
namespace {

/// The definitions are not in the registry: nobody applies them, traces add their nodes. Those that
/// assign variables are kept where nobody uses their outputs.
const op::OpDef& definition(const char* name, bool writes) {
  const auto make = [](const char* op, bool writes_ranges) {
    return op::OpDef{.name = op,
                     .infer = {},
                     .split = op::split_none,
                     .no_gradient = true,
                     .writes_ranges = writes_ranges};
  };
  static const op::OpDef definitions[] = {make("cond", false), make("cond", true),
                                          make("while_loop", false), make("while_loop", true),
                                          make("while_loop_gradient", false)};
  if (name == std::string_view("while_loop_gradient")) return definitions[4];
  return definitions[(name == std::string_view("cond") ? 0 : 2) + (writes ? 1 : 0)];
}

/// A variable that a region reads each time it runs, and the value there.
struct RegionRead {
  Variable variable;
  Tensor inside;
};

/// Stands in for the tapes while a region is traced: what happens inside is the node's business.
/// The variables that the region reads are read around it, and that the tapes must know; those that
/// it reads itself are kept.
class RegionRecorder final : public op::Recorder {
 public:
  RegionRecorder() : trace_(*Trace::current()) {
    tapes_.swap(op::recorders()), op::recorders().push_back(this);
  }
  ~RegionRecorder() override { tapes_.swap(op::recorders()); }
  RegionRecorder(const RegionRecorder&) = delete;
  RegionRecorder& operator=(const RegionRecorder&) = delete;

  /// Calls that the region has around it, as joins of a variable's parts, have gradients there.
  void record(const op::OpDef& op, const Tensors& inputs, const Tensors& outputs,
              const op::Attrs& attrs) override {
    const auto are_outside = [&](const Tensors& inside, Tensors& outside) {
      for (const Tensor& tensor : inside) {
        const Tensor* own = trace_.captured_as(tensor);
        if (own == nullptr) return false;
        outside.push_back(*own);
      }
      return !inside.empty();
    };
    Tensors taken, made;
    if (!are_outside(outputs, made) || !are_outside(inputs, taken)) return;
    for (op::Recorder* tape : tapes_) tape->record(op, taken, made, attrs);
  }
  void record_custom(const std::shared_ptr<const op::GradientFn>&, const Tensors&,
                     const Tensors&) override {}
  void record_read(const Variable& variable, const Tensor& value) override {
    if (const Tensor* outside = trace_.captured_as(value)) {
      for (op::Recorder* tape : tapes_) tape->record_read(variable, *outside);
    } else {
      reads_.push_back({variable, value});
    }
  }

  const std::vector<RegionRead>& reads() const { return reads_; }

 private:
  const Trace& trace_;
  std::vector<op::Recorder*> tapes_;
  std::vector<RegionRead> reads_;
};

/// A node of control flow while its regions are put together.
class NodeBuilder {
 public:
  NodeBuilder(Trace& trace, const char* op, const Tensors& inputs)
      : trace_(trace), op_(op), inputs_(inputs), given_(inputs.size()) {}

  const op::TensorTypes& trace(Trace::RegionKind kind, const Trace::RegionFn& f,
                               const op::TensorTypes& arguments) {
    std::vector<RegionRead>& reads = reads_.emplace_back();
    const auto unseen = [&](const Tensors& inside) {
      const RegionRecorder recorder;
      structure::Flat results = f(inside);
      reads = recorder.reads();
      return results;
    };
    Trace::Nested nested = trace_.trace_region(op_, kind, unseen, arguments);
    for (size_t i = 0; i < arguments.size(); ++i) nested.region.inputs.push_back(int(i));
    for (const Tensor& tensor : nested.captured) nested.region.inputs.push_back(input(tensor));
    for (const op::RangeOperand& range : nested.ranges) add_range(range);
    writes_ |= nested.writes;
    const Graph& graph = nested.region.graph;
    results_.emplace_back();
    for (ValueId result : graph.results) results_.back().push_back(graph.at(result).type);
    rests_.push_back(std::move(nested.rest));
    regions_.push_back(std::make_shared<Region>(std::move(nested.region)));
    return results_.back();
  }

  /// Adds a region of another node, which has `inputs` and whose variables are the first of this
  /// one's, too.
  void add(const Region& region, size_t variables, const Tensors& inputs) {
    Region own = region;
    for (int& taken : own.inputs) {
      const auto i = static_cast<size_t>(taken);
      if (i >= variables) taken = input(inputs[i]);
    }
    regions_.push_back(std::make_shared<Region>(std::move(own)));
  }

  /// What regions read of variables becomes an input of the node, so that tapes see it. It must not
  /// change while the node runs.
  void read_around() {
    for (size_t r = 0; r < regions_.size(); ++r) {
      for (const RegionRead& read : reads_[r]) read_around(*regions_[r], read);
    }
  }

  const op::TensorTypes& results(size_t region) const { return results_[region]; }
  const std::string& rest(size_t region) const { return rests_[region]; }
  const Tensors& inputs() const { return inputs_; }
  std::vector<std::shared_ptr<const Region>> regions() const {
    return {regions_.begin(), regions_.end()};
  }
  bool writes() const { return writes_; }

  Tensors finish(op::TensorTypes outputs, op::Attrs attrs = {}) {
    op::Signature& signature = node_.signature;
    signature = {&definition(op_, writes_), {}, std::move(outputs), std::move(attrs), {}};
    signature.inputs = types_of(inputs_);
    for (const auto& range : ranges_) signature.ranges.push_back(range.type);
    node_.regions = regions();
    return trace_.add(node_, inputs_, ranges_);
  }

 private:
  int input(const Tensor& tensor) {
    const auto same = [&](const Tensor& known) { return known.body() == tensor.body(); };
    // A loop's variable changes; the tensor that it began with, used inside, does not.
    const auto found =
        std::find_if(inputs_.begin() + static_cast<ptrdiff_t>(given_), inputs_.end(), same);
    if (found != inputs_.end()) return static_cast<int>(found - inputs_.begin());
    inputs_.push_back(tensor);
    return static_cast<int>(inputs_.size()) - 1;
  }

  void read_around(Region& region, const RegionRead& read) {
    Graph& graph = region.graph;
    const ValueId inside{read.inside.body()->value};
    if (graph.at(inside).source != Value::Source::node) return;  // It was read twice.
    std::erase_if(graph.nodes, [&](const Node& node) { return node.outputs == ValueIds{inside}; });
    graph.at(inside).source = Value::Source::argument;
    graph.arguments.push_back(inside);
    region.inputs.push_back(input(read.variable.value()));
  }

  void add_range(const op::RangeOperand& range) {
    const auto same = [&](const op::RangeOperand& known) { return known.range == range.range; };
    if (std::ranges::none_of(ranges_, same)) ranges_.push_back(range);
  }

  Trace& trace_;
  const char* op_;
  Tensors inputs_;
  const size_t given_;  // The number of inputs before the captured ones.
  op::RangeOperands ranges_;
  Node node_{};
  bool writes_ = false;
  std::vector<std::shared_ptr<Region>> regions_;
  std::vector<std::vector<RegionRead>> reads_;  // What each region reads.
  std::vector<op::TensorTypes> results_;
  std::vector<std::string> rests_;
};

/// Throws InvalidArgument, naming the first difference: `what` of the two sides.
void check_same(const char* what, const op::TensorTypes& a, const std::string& rest_a,
                const char* side_a, const op::TensorTypes& b, const std::string& rest_b,
                const char* side_b) {
  if (a.size() != b.size()) {
    throw InvalidArgument(
        fmt::format("{}: {} tensors {}, {} {}", what, a.size(), side_a, b.size(), side_b));
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    throw InvalidArgument(
        fmt::format("{} {} is {} {}, {} {}", what, i, a[i].str(), side_a, b[i].str(), side_b));
  }
  if (rest_a != rest_b) {
    throw InvalidArgument(fmt::format("{}: the plain values are '{}' {}, '{}' {}", what, rest_a,
                                      side_a, rest_b, side_b));
  }
}

void check_predicate(const char* op, const Tensor& predicate) {
  if (!predicate.defined() || predicate.dtype() != DType::boolean ||
      predicate.shape().total_extent() != 1) {
    throw InvalidArgument(
        fmt::format("{}: the predicate is {}, a single bool is needed", op,
                    predicate.defined() ? type_of(predicate).str() : "an empty Tensor"));
  }
}

// ---- Repeating a region's calls, for gradients ----

Unimplemented no_second_gradient() {
  return Unimplemented(
      "while_loop: it has no second derivative in a function; a loop of C++ with a fixed number of "
      "iterations has one");
}

Tensors repeated(const Region& region, const Tensors& inputs);

Tensors repeated_loop(const Node& node, const Tensors& inputs) {
  const auto variables = static_cast<std::ptrdiff_t>(node.outputs.size());
  const auto at = [&](const Tensors& now) {
    Tensors all = inputs;
    std::ranges::copy(now, all.begin());
    return all;
  };
  return flow::while_loop(
      [&](const Tensors& now) { return repeated(*node.regions[0], at(now))[0]; },
      [&](const Tensors& now) {
        return structure::Flat{repeated(*node.regions[1], at(now)), {}};
      },
      {Tensors(inputs.begin(), inputs.begin() + variables), {}},
      maximum_iterations(node.signature));
}

Tensors repeated(const Node& node, const Tensors& inputs) {
  const Trace::Repetition repetition(*Trace::current(), node.random_call);
  if (node.regions.empty()) return op::apply(node.op(), inputs, node.signature.attrs);
  const auto region = [&](size_t i) {
    return [&, i] { return structure::Flat{repeated(*node.regions[i], inputs), {}}; };
  };
  if (node.op().name == "cond") return flow::cond(inputs[0], region(0), region(1));
  if (node.op().name == "while_loop") return repeated_loop(node, inputs);
  throw no_second_gradient();
}

Tensors repeated(const Region& region, const Tensors& inputs) {
  const Graph& graph = region.graph;
  ValueMap<Tensor> values(graph.values.size());
  for (size_t i = 0; i < graph.arguments.size(); ++i) {
    values[graph.arguments[i]] = inputs[static_cast<size_t>(region.inputs[i])];
  }
  for (ValueId v : values.ids()) {
    if (graph.at(v).source == Value::Source::constant) values[v] = graph.at(v).constant;
  }
  for (const Node& node : graph.nodes) {
    Tensors operands;
    for (ValueId input : node.inputs) operands.push_back(values[input]);
    const Tensors outputs = repeated(node, operands);
    for (size_t i = 0; i < outputs.size(); ++i) values[node.outputs[i]] = outputs[i];
  }
  Tensors results;
  for (ValueId result : graph.results) results.push_back(values[result]);
  return results;
}

/// True for an input whose gradient somebody wants and that can have one: a predicate that depends
/// on the sources lies on the way to them, too.
bool has_gradient(const op::Call& call, size_t input) {
  return call.needed[input] && is_floating(call.inputs[input].dtype());
}

/// The gradients of the inputs that `region` takes, zeros for the others.
Tensors gradients_of(const Region& region, const op::Call& call, const Tensors& upstream) {
  GradientTape tape({.persistent = false, .watch_accessed_variables = false});
  Tensors inputs = call.inputs;
  Tensors wanted;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!has_gradient(call, i)) continue;
    inputs[i] = identity(inputs[i]);  // Its own, also where one tensor is two inputs.
    tape.watch(inputs[i]);
    wanted.push_back(inputs[i]);
  }
  const Tensors results = repeated(region, inputs);
  Tensors targets, given;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!upstream[i].defined()) continue;
    targets.push_back(results[i]);
    given.push_back(upstream[i]);
  }
  return tape.gradient(targets, wanted,
                       {.unconnected = UnconnectedGradients::zero, .output_gradients = given});
}

op::GradientFn cond_gradient(std::vector<std::shared_ptr<const Region>> regions, bool writes) {
  return [regions = std::move(regions), writes](const op::Call& call, const Tensors& upstream) {
    if (writes) {
      throw Unimplemented(
          "cond: a branch that assigns variables has no gradient; assign after the tape is done");
    }
    const auto branch = [&](size_t i) {
      return [&, i] {
        Tensors dense = gradients_of(*regions[i], call, upstream);
        for (Tensor& gradient : dense) gradient = op::with_all_rows(gradient);
        return structure::Flat{std::move(dense), {}};
      };
    };
    const Tensors found = flow::cond(call.inputs[0], branch(0), branch(1));
    Tensors gradients(call.inputs.size());
    size_t next = 0;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (has_gradient(call, i)) gradients[i] = found[next++];
    }
    return gradients;
  };
}

/// Tells the tapes of a node that op::apply did not see.
void record(op::GradientFn gradient, const Tensors& inputs, const Tensors& outputs) {
  const auto shared = std::make_shared<const op::GradientFn>(std::move(gradient));
  for (op::Recorder* tape : op::recorders()) tape->record_custom(shared, inputs, outputs);
}

/// The inputs of a loop that gradients pass through: its floating variables, whose gradients an
/// iteration changes, then the captured ones that somebody wants the gradient of, to which each
/// iteration adds.
std::vector<size_t> differentiated_inputs(const op::Call& call, size_t variables) {
  std::vector<size_t> inputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const bool passes = i < variables ? is_floating(call.inputs[i].dtype()) : has_gradient(call, i);
    if (passes) inputs.push_back(i);
  }
  return inputs;
}

/// `now` is the variables before an iteration of `body`, then the gradients after it; returns the
/// gradients before it. `through` is the differentiated inputs.
Tensors one_iteration_back(const Region& body, const op::Call& call, size_t variables,
                           const std::vector<size_t>& through, const Tensors& now) {
  GradientTape tape({.persistent = false, .watch_accessed_variables = false});
  Tensors inputs = call.inputs;
  std::copy_n(now.begin(), variables, inputs.begin());
  Tensors wanted;
  for (size_t i : through) {
    inputs[i] = identity(inputs[i]);
    tape.watch(inputs[i]);
    wanted.push_back(inputs[i]);
  }
  const Tensors results = repeated(body, inputs);
  Tensors targets, given;
  for (size_t k = 0; k < through.size() && through[k] < variables; ++k) {
    targets.push_back(results[through[k]]);
    given.push_back(now[variables + k]);
  }
  Tensors gradients = tape.gradient(
      targets, wanted, {.unconnected = UnconnectedGradients::zero, .output_gradients = given});
  for (size_t k = 0; k < through.size(); ++k) {
    gradients[k] = op::with_all_rows(gradients[k]);
    if (through[k] >= variables) gradients[k] = now[variables + k] + gradients[k];
  }
  return gradients;
}

op::GradientFn loop_gradient(std::vector<std::shared_ptr<const Region>> regions, size_t variables,
                             int64_t most, bool writes) {
  return [=, regions = std::move(regions)](const op::Call& call, const Tensors& upstream) {
    if (writes) {
      throw Unimplemented(
          "while_loop: a loop that assigns variables has no gradient; assign after the tape is "
          "done");
    }
    const std::vector<size_t> through = differentiated_inputs(call, variables);
    Tensors inputs = call.inputs;
    inputs.resize(variables);
    for (size_t i : through) {
      const bool reached = i < variables && upstream[i].defined();
      inputs.push_back(reached ? op::with_all_rows(upstream[i]) : zeros_like(call.inputs[i]));
    }
    const op::TensorTypes types = types_of(inputs);
    NodeBuilder node(*Trace::current(), "while_loop_gradient", inputs);
    for (const auto& region : regions) node.add(*region, variables, call.inputs);
    const auto back = [&](const Tensors& now) {
      return structure::Flat{one_iteration_back(*regions[1], call, variables, through, now), {}};
    };
    node.trace(Trace::RegionKind::loops, back, types);
    const Tensors found =
        node.finish({types.begin() + static_cast<std::ptrdiff_t>(variables), types.end()},
                    {{"maximum_iterations", most}});
    record([](const op::Call&, const Tensors&) -> Tensors { throw no_second_gradient(); },
           node.inputs(), found);
    Tensors gradients(call.inputs.size());
    for (size_t k = 0; k < through.size(); ++k) gradients[through[k]] = found[k];
    return gradients;
  };
}

}  // namespace

int64_t maximum_iterations(const op::Signature& signature) {
  return signature.attrs.get<int64_t>("maximum_iterations");
}

}  // namespace tandem::graph

namespace tandem::flow {

using graph::NodeBuilder;
using graph::Trace;

Tensors cond(const Tensor& predicate, const Branch& then, const Branch& otherwise) {
  graph::check_predicate("cond", predicate);
  Trace* trace = Trace::current();
  if (trace == nullptr) return (predicate.item<bool>() ? then() : otherwise()).tensors;
  NodeBuilder node(*trace, "cond", {predicate});
  const auto region = [&](const Branch& branch) {
    node.trace(Trace::RegionKind::once, [&](const Tensors&) { return branch(); }, {});
  };
  region(then);
  region(otherwise);
  graph::check_same("cond: result", node.results(0), node.rest(0), "in the first branch",
                    node.results(1), node.rest(1), "in the second");
  Tensors outputs = node.finish(node.results(0));
  graph::record(graph::cond_gradient(node.regions(), node.writes()), node.inputs(), outputs);
  return outputs;
}

Tensors while_loop(const Condition& condition, const Body& body, const structure::Flat& variables,
                   int64_t maximum_iterations) {
  const op::TensorTypes types = types_of(variables.tensors);
  const auto check_body = [&](const op::TensorTypes& results, const std::string& rest) {
    graph::check_same("while_loop: variable", types, variables.rest, "before", results, rest,
                      "after an iteration");
  };
  Trace* trace = Trace::current();
  if (trace == nullptr) {
    Tensors now = variables.tensors;
    core::LookInLoop interruption;
    for (int64_t i = 0; i < maximum_iterations; ++i) {
      interruption.look();
      const Tensor goes_on = condition(now);
      graph::check_predicate("while_loop", goes_on);
      if (!goes_on.item<bool>()) break;
      structure::Flat next = body(now);
      check_body(types_of(next.tensors), next.rest);
      now = std::move(next.tensors);
    }
    return now;
  }
  NodeBuilder node(*trace, "while_loop", variables.tensors);
  const auto decides = [&](const Tensors& now) {
    const Tensor goes_on = condition(now);
    graph::check_predicate("while_loop", goes_on);
    return structure::Flat{{goes_on}, {}};
  };
  node.trace(Trace::RegionKind::loops, decides, types);
  node.trace(Trace::RegionKind::loops, body, types);
  check_body(node.results(1), node.rest(1));
  if (!node.writes() && !op::recorders().empty()) node.read_around();
  Tensors outputs = node.finish(types, {{"maximum_iterations", maximum_iterations}});
  graph::record(
      graph::loop_gradient(node.regions(), types.size(), maximum_iterations, node.writes()),
      node.inputs(), outputs);
  return outputs;
}

}  // namespace tandem::flow
