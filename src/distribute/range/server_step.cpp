#include "distribute/range/server_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "graph/passes/passes.h"
#include "graph/passes/replacements.h"
#include "op/apply.h"
#include "tandem/error.h"
#include "tensor/row_slices.h"
#include "tensor/shared_stores.h"

namespace tandem::distribute {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;
using graph::ValueMap;

/// Which function of a step this thread traces.
enum class Purpose { step, rows, sums };
thread_local Purpose purpose = Purpose::step;

/// The node that computes each value, or -1.
ValueMap<int> makers_of(const Graph& graph) {
  ValueMap<int> makers(graph.values.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId output : graph.nodes[n].outputs) makers[output] = static_cast<int>(n);
  }
  return makers;
}

bool is_sum(const Graph& graph, const ValueMap<int>& makers, ValueId value) {
  const int maker = makers[graph.storage_of(value)];
  return maker >= 0 && graph.nodes[static_cast<size_t>(maker)].op().name == "all_reduce";
}

/// Whether what is assigned was summed, or averaged, over the replicas.
bool is_aggregated(const Graph& graph, const ValueMap<int>& makers, ValueId value) {
  if (is_sum(graph, makers, value)) return true;
  const int maker = makers[graph.storage_of(value)];
  if (maker < 0) return false;
  const Node& node = graph.nodes[static_cast<size_t>(maker)];
  return node.op().name == "mul" && is_sum(graph, makers, node.inputs[0]);
}

void note_assigned(std::vector<AssignedVariable>& assigned, const AssignedVariable& one) {
  for (AssignedVariable& known : assigned) {
    if (known.range != one.range) continue;
    if (known.change != one.change) known.change = AssignedVariable::Change::set;
    return;
  }
  assigned.push_back(one);
}

std::vector<AssignedVariable> assigned_by(const Graph& graph, int shares) {
  using enum AssignedVariable::Change;
  const ValueMap<int> makers = makers_of(graph);
  std::vector<AssignedVariable> assigned;
  for (const Node& node : graph.nodes) {
    if (!node.op().writes_ranges) continue;
    const bool is_assign = node.op().name.starts_with("assign");
    for (ValueId range : node.ranges) {
      AssignedVariable one{.range = graph.at(range).range};
      if (!one.range.is_same_for_all()) {
        throw Unimplemented(fmt::format(
            "ParameterServerStrategy with staleness 0: a step assigns variable {}, of which each "
            "replica has its own value; synchronize it on_write",
            one.range.name()));
      }
      if (is_assign && node.op().name != "assign") one.change = add;
      one.is_summed = shares > 1 && is_assign && is_aggregated(graph, makers, node.inputs[0]);
      note_assigned(assigned, one);
    }
  }
  return assigned;
}

/// The collectives that some of the values depend on, by their places among the nodes.
std::set<size_t> collectives_before(const Graph& graph, const ValueMap<int>& makers,
                                    std::span<const ValueId> values) {
  std::set<size_t> found;
  std::vector<bool> seen(graph.nodes.size());
  graph::ValueIds open(values.begin(), values.end());
  while (!open.empty()) {
    const int maker = makers[graph.storage_of(open.back())];
    open.pop_back();
    const auto place = static_cast<size_t>(maker);
    if (maker < 0 || seen[place]) continue;
    seen[place] = true;
    const Node& node = graph.nodes[place];
    if (node.op().is_collective) found.insert(place);
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return found;
}

/// What is assigned, before it is aggregated over the replicas.
ValueId own_value(const Graph& graph, const ValueMap<int>& makers, ValueId assigned) {
  ValueId value = assigned;
  const int maker = makers[graph.storage_of(value)];
  if (maker >= 0 && graph.nodes[static_cast<size_t>(maker)].op().name == "mul" &&
      is_aggregated(graph, makers, value)) {
    value = graph.nodes[static_cast<size_t>(maker)].inputs[0];
  }
  const int sum = makers[graph.storage_of(value)];
  if (sum < 0) return value;
  const Node& node = graph.nodes[static_cast<size_t>(sum)];
  if (!node.op().is_collective) return value;
  const auto output = std::ranges::find(node.outputs, graph.storage_of(value));
  return node.inputs[static_cast<size_t>(output - node.outputs.begin())];
}

/// Whether a node's inputs depend on no variable and on no random number, and have shapes of their
/// own.
bool is_of_batch_alone(const Graph& graph, const ValueMap<int>& makers, const Node& node) {
  std::vector<bool> seen(graph.nodes.size());
  graph::ValueIds open = node.inputs;
  for (const ValueId input : node.inputs) {
    if (graph.at(input).type.shape.is_symbolic()) return false;
  }
  while (!open.empty()) {
    const ValueId value = graph.storage_of(open.back());
    open.pop_back();
    if (graph.at(value).source == Value::Source::range) return false;
    if (makers[value] < 0) continue;
    const auto place = static_cast<size_t>(makers[value]);
    if (seen[place]) continue;
    seen[place] = true;
    const Node& maker = graph.nodes[place];
    if (maker.op().is_random || maker.op().is_collective) return false;
    if (!maker.regions.empty() || !maker.ranges.empty()) return false;
    open.insert(open.end(), maker.inputs.begin(), maker.inputs.end());
  }
  return true;
}

/// A worker has only its own values; servers sum what it sends. Those that make `kept` stay.
void drop_collectives(Graph& graph, const std::set<ValueId>& kept_values = {}) {
  graph::Replacements replaced(graph);
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    replaced.update(node);
    if (node.op().is_collective && !kept_values.contains(node.outputs[0])) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        replaced.replace(node.outputs[i], node.inputs[i]);
      }
    } else {
      kept.push_back(std::move(node));
    }
  }
  graph.nodes = std::move(kept);
  replaced.finish();
}

}  // namespace

StoreRange RangeCopies::of(const StoreRange& range, bool by_rows) {
  auto& [original, copy] = copies_[{range.block.get(), range.offset}];
  if (!copy.block) {
    const MappedScope memory(MappedScope::Kind::sparse, by_rows || use_ == StepUse::trace ? 1 : 0);
    const std::vector<devices::DevicePtr> devices = {device_};
    auto block = std::make_shared<StoreBlock>(range.block->dtype(),
                                              std::max<int64_t>(range.count, 1), devices, owner_);
    copy = {.block = block, .offset = block->take(range.count, range.name()), .count = range.count};
    original = range;
  }
  return copy;
}

StoreRange RangeCopies::small(const TensorType& type, const char* name) const {
  const std::vector<devices::DevicePtr> devices = {device_};
  const int64_t count = type.shape.count();
  auto block =
      std::make_shared<StoreBlock>(type.dtype, std::max<int64_t>(count, 1), devices, owner_);
  const int64_t offset = block->take(count, name);
  return {.block = std::move(block), .offset = offset, .count = count};
}

StoreRange RangeCopies::sum(size_t number, const TensorType& type) {
  while (sums_.size() <= number) sums_.push_back(small(type, "a sum over the shares of a batch"));
  return sums_[number];
}

StoreRange RangeCopies::share() {
  if (!share_.block) share_ = small({DType::int32, {}}, "the number of a share");
  return share_;
}

ServerStep::ServerStep(const FlatFunction& f, int shares)
    : shares_(shares),
      function_([this, f](const Tensors& arguments) { return trace(f, arguments); },
                {.name = "server_step"}),
      rows_function_([this, f](const Tensors& arguments) { return trace_rows(f, arguments); },
                     {.name = "server_rows"}),
      sums_function_(
          [this, f](const Tensors& arguments) {
            Tensors results = trace(f, arguments);
            purpose = Purpose::sums;
            return results;
          },
          {.name = "server_sums"}) {}

Tensors ServerStep::trace_rows(const FlatFunction& f, const Tensors& arguments) {
  purpose = Purpose::rows;
  GradientSink sink(shares_);
  Tensors results;
  {
    const GradientSink::Scope scope(sink);
    results = f(arguments);
  }
  check_like_first(sink.pushed(), results.size());
  Tensors rows;
  size_t place = 0;
  for (const PushedGradients& call : sink.pushed()) {
    for (const Tensor& own : call.rows) {
      if (!has_row_gradients_[place++]) continue;
      rows.push_back(own.defined() ? own : Tensor::from(std::vector<int64_t>{kAllRows}, {1}));
    }
  }
  // They may be what else is read of a variable; see mark_all_rows.
  rows.insert(rows.end(), results.begin(), results.end());
  return rows;
}

/// What servers have of a step is fixed by its first trace.
void ServerStep::check_like_first(const std::vector<PushedGradients>& pushed,
                                  size_t results) const {
  const auto ranges_of = [](const PushedGradients& call) {
    std::vector<StoreRange> ranges;
    for (const Variable& variable : call.variables) ranges.push_back(variable.body()->range);
    return ranges;
  };
  if (results == results_ && std::ranges::equal(pushed, pushed_, {}, ranges_of, ranges_of)) {
    return;
  }
  throw InvalidArgument(
      "ParameterServerStrategy: a step has other results, or applies gradients to other variables, "
      "for other arguments; what servers have of a step is fixed by its first trace");
}

namespace {

/// The numbers of all rows.
Tensor all_rows_of(const Variable& variable) {
  std::vector<int64_t> rows(static_cast<size_t>(variable.shape().extent(0)));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return Tensor::from(rows, {variable.shape().extent(0)});
}

}  // namespace

Tensors ServerStep::trace(const FlatFunction& f, const Tensors& arguments) {
  purpose = Purpose::step;
  GradientSink sink(shares_);
  Tensors results;
  {
    const GradientSink::Scope scope(sink);
    results = f(arguments);
  }
  const bool is_first = pushed_.empty();
  if (is_first) {
    results_ = results.size();
    has_row_gradients_.clear();
  } else {
    check_like_first(sink.pushed(), results.size());
  }
  size_t place = 0;
  for (size_t i = 0; i < sink.pushed().size(); ++i) {
    PushedGradients call = sink.pushed()[i];
    for (size_t k = 0; k < call.gradients.size(); ++k) {
      Tensor gradient = call.gradients[k];
      Tensor rows = call.rows[k];
      if (is_first) has_row_gradients_.push_back(rows.defined());
      const bool by_rows = has_row_gradients_[place++];
      if (by_rows && !rows.defined()) rows = all_rows_of(call.variables[k]);
      if (!by_rows && rows.defined()) {
        gradient = op::with_all_rows(row_sparse(call.variables[k].shape(), rows, gradient));
      }
      results.push_back(gradient);
      if (by_rows) results.push_back(rows);
    }
    results.push_back(call.condition);
    call.gradients.clear();
    call.rows.clear();
    call.condition = {};
    if (is_first) pushed_.push_back(std::move(call));
  }
  return results;
}

bool ServerStep::is_changed_by_servers(const StoreRange& range) const {
  const auto is_it = [&](const Variable& variable) { return variable.body()->range == range; };
  return std::ranges::any_of(pushed_,
                             [&](const PushedGradients& call) {
                               return std::ranges::any_of(call.variables, is_it);
                             }) ||
         std::ranges::any_of(assigned_,
                             [&](const AssignedVariable& one) { return one.range == range; });
}

void ServerStep::check_trains() const {
  if (trains()) return;
  throw InvalidArgument("schedule: the function applies no gradients to variables of the strategy");
}

bool ServerStep::reads_any_rows() const {
  return std::ranges::any_of(reads_rows_, [](bool reads) { return reads; });
}

bool ServerStep::has_any_row_gradients() const {
  return std::ranges::any_of(has_row_gradients_, [](bool has) { return has; });
}

bool ServerStep::clips() const {
  return std::ranges::any_of(pushed_,
                             [](const PushedGradients& call) { return call.limits.is_any(); });
}

bool ServerStep::is_read_by_rows(const StoreRange& range) const {
  size_t place = 0;
  for (const PushedGradients& call : pushed_) {
    for (const Variable& variable : call.variables) {
      const bool by_rows = reads_rows_[place++];
      if (variable.body()->range == range) return by_rows;
    }
  }
  return false;
}

namespace {

/// The values that a value is computed from, itself among them, by their storage.
std::set<ValueId> values_before(const Graph& graph, const ValueMap<int>& makers, ValueId value) {
  std::set<ValueId> seen;
  graph::ValueIds open{graph.storage_of(value)};
  while (!open.empty()) {
    const ValueId each = open.back();
    open.pop_back();
    if (!seen.insert(each).second || makers[each] < 0) continue;
    for (const ValueId input : graph.nodes[static_cast<size_t>(makers[each])].inputs) {
      open.push_back(graph.storage_of(input));
    }
  }
  return seen;
}

/// Whether a variable's rows are read alone: all that reads it takes rows whose numbers go into
/// those of its gradient, `rows`, and these depend on no variable.
bool takes_rows_alone(const Graph& graph, const ValueMap<int>& makers, const StoreRange& range,
                      ValueId rows) {
  const std::set<ValueId> values = values_before(graph, makers, rows);
  const auto is_range = [&](ValueId value) {
    return graph.at(value).source == Value::Source::range;
  };
  if (std::ranges::any_of(values, is_range)) return false;
  for (const Node& node : graph.nodes) {
    if (!node.regions.empty()) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& input = graph.at(graph.storage_of(node.inputs[i]));
      if (input.source != Value::Source::range || input.range != range) continue;
      const bool is_gather = i == 0 && node.op().name == "gather" && node.inputs.size() == 2;
      if (!is_gather || !values.contains(graph.storage_of(node.inputs[1]))) return false;
    }
  }
  return std::ranges::none_of(graph.results, [&](ValueId result) {
    const Value& value = graph.at(graph.storage_of(result));
    return value.source == Value::Source::range && value.range == range;
  });
}

/// Nothing is computed or assigned that the results do not depend on.
void keep_results_alone(Graph& graph) {
  const ValueMap<int> makers = makers_of(graph);
  std::set<ValueId> needed;
  for (const ValueId result : graph.results) needed.merge(values_before(graph, makers, result));
  std::erase_if(graph.nodes, [&](const Node& node) {
    return std::ranges::none_of(node.outputs,
                                [&](ValueId output) { return needed.contains(output); });
  });
}

}  // namespace

void ServerStep::note_rows_read(const Graph& graph) {
  const ValueMap<int> makers = makers_of(graph);
  reads_rows_.assign(has_row_gradients_.size(), false);
  size_t place = 0;
  size_t result = results_;
  for (const PushedGradients& call : pushed_) {
    for (const Variable& variable : call.variables) {
      ++result;
      if (!has_row_gradients_[place++]) continue;
      reads_rows_[place - 1] =
          takes_rows_alone(graph, makers, variable.body()->range, graph.results[result++]);
    }
    ++result;
  }
}

/// Puts kAllRows in the place of rows, in a trace for them, where more is read of a variable.
void ServerStep::mark_all_rows(Graph& graph) const {
  const ValueMap<int> makers = makers_of(graph);
  const Tensor mark = Tensor::from(std::vector<int64_t>{kAllRows}, {1});
  graph::ValueIds rows;
  size_t place = 0;
  for (const PushedGradients& call : pushed_) {
    for (const Variable& variable : call.variables) {
      if (!has_row_gradients_[place++]) continue;
      const ValueId own = graph.results[rows.size()];
      const bool is_alone = takes_rows_alone(graph, makers, variable.body()->range, own);
      rows.push_back(is_alone ? own
                              : graph.add_value({.source = Value::Source::constant,
                                                 .type = {mark.dtype(), mark.shape()},
                                                 .constant = mark}));
    }
  }
  graph.results = std::move(rows);
}

/// The collectives, by their places among the nodes, that gradients, results or what is assigned
/// depend on. Those of the conditions are none of them: the servers join these.
std::set<size_t> ServerStep::shared_collectives(const Graph& graph) const {
  graph::ValueIds conditions;
  graph::ValueIds own(graph.results.begin(),
                      graph.results.begin() + static_cast<ptrdiff_t>(results_));
  size_t next = results_;
  size_t place = 0;
  for (const PushedGradients& call : pushed_) {
    for (size_t i = 0; i < call.variables.size(); ++i) {
      own.push_back(graph.results[next++]);
      if (has_row_gradients_[place++]) own.push_back(graph.results[next++]);
    }
    conditions.push_back(graph.results[next++]);
  }
  const ValueMap<int> makers = makers_of(graph);
  std::set<size_t> found = collectives_before(graph, makers, own);
  const std::set<size_t> joined = collectives_before(graph, makers, conditions);
  for (const Node& node : graph.nodes) {
    if (!node.op().name.starts_with("assign")) continue;
    const ValueId value = own_value(graph, makers, node.inputs[0]);
    for (const size_t each : collectives_before(graph, makers, {&value, 1})) {
      if (!joined.contains(each)) found.insert(each);
    }
  }
  return found;
}

/// Throws Unimplemented where there is something else than sums.
ServerStep::SharedSums ServerStep::shared_sums(const Graph& graph) const {
  const ValueMap<int> makers = makers_of(graph);
  SharedSums found;
  for (const size_t place : shared_collectives(graph)) {
    const Node& node = graph.nodes[place];
    if (node.op().name != "all_reduce") {
      throw Unimplemented(fmt::format(
          "ParameterServerStrategy with staleness 0: a gradient, a result or an assigned value "
          "depends on {} over the workers of what they compute, but workers only sum. Use "
          "MirroredStrategy, or another staleness",
          node.op().name));
    }
    const bool of_batch = is_of_batch_alone(graph, makers, node);
    (of_batch ? found.of_batch : found.of_computed).insert(place);
  }
  return found;
}

/// Sums of what depends on the batch alone are read from where the worker puts them.
void ServerStep::use_sums(Graph& graph, const std::set<size_t>& places, RangeCopies& copies) {
  size_t number = 0;
  for (const size_t place : places) {
    const Node& node = graph.nodes[place];
    for (const ValueId output : node.outputs) {
      Value& value = graph.values[output];
      const TensorType type{value.type.dtype, value.type.shape};
      if (sums_.size() == number) sums_.push_back(type);
      value.source = Value::Source::range;
      value.range = copies.sum(number++, type);
    }
  }
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    graph.nodes.erase(graph.nodes.begin() + static_cast<ptrdiff_t>(*place));
  }
}

/// A worker does the share of one replica now and of another one later.
void ServerStep::use_share_number(graph::Graph& graph, RangeCopies& copies) const {
  std::erase_if(graph.nodes, [&](const Node& node) {
    if (node.op().name != "replica_id") return false;
    Value& value = graph.values[node.outputs[0]];
    value.source = Value::Source::range;
    value.range = copies.share();
    return true;
  });
  for (Node& node : graph.nodes) {
    for (auto& region : node.regions) {
      auto own = std::make_shared<graph::Region>(*region);
      use_share_number(own->graph, copies);
      region = std::move(own);
    }
  }
}

void ServerStep::adapt(graph::Graph& graph, RangeCopies& copies) {
  if (shares_ > 1) {
    graph::drop_needless_collectives(graph, shares_);
    use_share_number(graph, copies);
  }
  if (purpose == Purpose::sums) {
    graph::ValueIds summed;
    for (const size_t place : shared_sums(graph).of_batch) {
      const Node& node = graph.nodes[place];
      summed.insert(summed.end(), node.inputs.begin(), node.inputs.end());
    }
    graph.results = std::move(summed);
    return keep_results_alone(graph);
  }
  if (purpose == Purpose::rows) {
    mark_all_rows(graph);
    keep_results_alone(graph);
    if (shares_ > 1) drop_collectives(graph);
    return use_copies(graph, copies);
  }
  const bool is_first = !is_traced_;
  is_traced_ = true;
  if (!trains()) return;
  const std::vector<AssignedVariable> assigned = assigned_by(graph, shares_);
  if (is_first) {
    assigned_ = assigned;
    random_calls_ = graph.random_calls;
    note_rows_read(graph);
  }
  if (assigned != assigned_) {
    throw InvalidArgument(
        "ParameterServerStrategy: a step assigns other variables for other arguments; what servers "
        "have of a step is fixed by its first trace");
  }
  if (shares_ > 1) {
    const SharedSums sums = shared_sums(graph);
    std::set<ValueId> kept;
    for (const size_t place : sums.of_computed) kept.insert(graph.nodes[place].outputs[0]);
    meets_ |= !kept.empty();
    use_sums(graph, sums.of_batch, copies);
    drop_collectives(graph, kept);
  }
  use_copies(graph, copies);
}

ServerStep& ServerSteps::of(const FlatFunction& f) {
  std::unique_ptr<ServerStep>& step = steps_[f.body().get()];
  if (!step) {
    step = std::make_unique<ServerStep>(f, shares_);
    functions_.push_back(f);
  }
  return *step;
}

void ServerStep::use_copies(graph::Graph& graph, RangeCopies& copies) const {
  for (Value& value : graph.values) {
    if (value.source == Value::Source::range && is_changed_by_servers(value.range)) {
      value.range = copies.of(value.range, is_read_by_rows(value.range));
    }
  }
  for (Node& node : graph.nodes) {
    for (auto& region : node.regions) {
      auto own = std::make_shared<graph::Region>(*region);
      use_copies(own->graph, copies);
      region = std::move(own);
    }
  }
}

}  // namespace tandem::distribute
