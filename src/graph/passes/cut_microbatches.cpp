// Micro-batches are replicas in time: each runs all that comes before the first collective, and
// what comes after it runs once, from the sums. This pass cuts a graph there, and what runs for
// each micro-batch into the forward and backward passes of the chunks of a pipeline.
//
//   before   %1 = matmul(x, w1)  %2 = matmul(%1, w2)  loss = f(%2, y)
//            %5 = gradient of w2  %6 = gradient of w1  %7, %8 = all_reduce(%5, %6)
//            adam_update(w1, w2, %7, %8)
//
//   after    for each micro-batch
//            segment 0, stage 0:  %1 = matmul(x, w1)
//            segment 1, stage 1:  %2 = matmul(%1, w2)  loss = f(%2, y)
//                                 %5 = gradient of w2  accumulate(sum of %5, %5)
//            segment 2, stage 0:  %6 = gradient of w1  accumulate(sum of %6, %6)
//            once:                adam_update(w1, w2, sum of %5, sum of %6)
//
// What is the same for all micro-batches, as a variable that is read, is computed again in each
// segment that uses it instead of being kept from one to another. A sum of gradients of stages that
// do not share memory, as those of a tied weight, is taken of each stage's own, and added up once.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph/exchange_depths.h"
#include "graph/microbatches.h"
#include "graph/once_levels.h"
#include "graph/passes/extract.h"
#include "graph/same_everywhere.h"
#include "graph/sum_in_time.h"
#include "graph/uses.h"
#include "op/cost.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::graph {
namespace {

using devices::DevicePtr;
using NodeList = std::vector<size_t>;

/// The call that computes each value, -1 where none does.
ValueMap<int> producers_of(const Graph& graph) {
  ValueMap<int> producers(graph.values.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId output : graph.nodes[i].outputs) producers[output] = static_cast<int>(i);
  }
  return producers;
}

/// Says of each call of a graph whether it is made for each micro-batch, once, or wherever its
/// results are needed.
class CallTimes {
 public:
  explicit CallTimes(const Graph& graph)
      : graph_(graph),
        depths_(graph),
        same_(graph),
        producers_(producers_of(graph)),
        is_once_(graph.nodes.size(), false) {
    std::set<ValueId> written;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      const bool meets = is_sum(node) || is_broadcast(node);
      const bool follows =
          std::ranges::any_of(node.inputs,
                              [&](ValueId input) { return is_computed_once(input); }) ||
          std::ranges::any_of(node.ranges, [&](ValueId range) { return written.contains(range); });
      is_once_[i] = depths_.of(i) > 0 || node.op().writes_ranges || follows;
      if (meets && is_once_[i]) throw_deep(node);
      for (ValueId range : node.ranges) {
        if (!graph.at(range).range.is_same_for_all()) throw_own(range);
        if (node.op().writes_ranges) written.insert(range);
      }
      same_.add(node);
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (is_once_[i]) check_once(graph.nodes[i]);
    }
  }

  bool is_once(size_t node) const { return is_once_[node]; }
  bool is_collective(size_t node) const {
    return is_sum(graph_.nodes[node]) || is_broadcast(graph_.nodes[node]);
  }
  /// The same for all micro-batches, and computed where it is needed.
  bool is_anywhere(size_t node) const {
    return !is_once_[node] && !is_collective(node) && !graph_.nodes[node].outputs.empty() &&
           std::ranges::all_of(graph_.nodes[node].outputs,
                               [&](ValueId output) { return same_.contains(output); });
  }
  bool is_anywhere(ValueId value) const {
    if (!producers_.contains(value)) return false;  // A sum that was added since.
    const int producer = producers_[graph_.storage_of(value)];
    return producer >= 0 && is_anywhere(static_cast<size_t>(producer));
  }

  /// `nodes` and the calls that may be made anywhere and that they need, in order.
  NodeList with_needed(const NodeList& nodes) const {
    std::set<size_t> all(nodes.begin(), nodes.end());
    NodeList open = nodes;
    while (!open.empty()) {
      const Node& node = graph_.nodes[open.back()];
      open.pop_back();
      for (ValueId input : node.inputs) {
        if (!is_anywhere(input)) continue;
        const auto producer = static_cast<size_t>(producers_[graph_.storage_of(input)]);
        if (all.insert(producer).second) open.push_back(producer);
      }
    }
    return {all.begin(), all.end()};
  }

  const ValueMap<int>& producers() const { return producers_; }

 private:
  bool is_computed_once(ValueId value) const {
    const int producer = producers_[graph_.storage_of(value)];
    return producer >= 0 && is_once_[static_cast<size_t>(producer)];
  }

  /// What runs once may use sums, what is the same for all micro-batches, and arguments that are.
  void check_once(const Node& node) const {
    for (ValueId input : node.inputs) {
      const ValueId value = graph_.storage_of(input);
      const int producer = producers_[value];
      const auto p = static_cast<size_t>(producer);
      const bool is_known = producer >= 0 ? is_once_[p] || is_collective(p) || is_anywhere(p)
                                          : !graph_.at(value).type.shape.is_symbolic();
      if (is_known) continue;
      throw Unimplemented(fmt::format(
          "{}: with micro-batches it needs a sum over all of them and a value {} of its own "
          "micro-batch at the same time; sum or average that value before it is used",
          node.op().name, graph_.at(value).type.str()));
    }
  }

  [[noreturn]] static void throw_deep(const Node& node) {
    throw Unimplemented(fmt::format(
        "{}: a sum over micro-batches that needs another such sum; a micro-batch would have to "
        "wait for all others in the middle of its passes. Batch normalisation takes the statistics "
        "of each micro-batch here; synchronized ones need replicas",
        node.op().name));
  }
  [[noreturn]] void throw_own(ValueId range) const {
    throw Unimplemented(
        fmt::format("variable {}: it has a value of its own for each replica, which micro-batches "
                    "do not have; create it with VariableSynchronization::automatic",
                    graph_.at(range).range.name()));
  }

  const Graph& graph_;
  const ExchangeDepths depths_;
  SameEverywhere same_;
  const ValueMap<int> producers_;
  std::vector<bool> is_once_;
};

/// Deals the calls that each micro-batch makes to the chunks' passes: the key of a call is the
/// segment that it belongs to.
class PassKeys {
 public:
  PassKeys(const Graph& graph, const CallTimes& times, const PipelineStages& stages)
      : graph_(graph),
        times_(times),
        stages_(stages),
        chunks_(stages.chunks_in_all()),
        keys_(graph.nodes.size(), -1),
        is_backward_(graph.nodes.size(), false) {
    find_backward();
    const std::vector<int> own = has_scopes() ? by_scopes() : by_costs();
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (is_keyed(i)) keys_[i] = std::max(is_backward_[i] ? backward_key(i) : own[i], floor_of(i));
    }
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      if (is_keyed(i) && keys_[i] < 0) keys_[i] = first_use_of(i);
    }
  }

  /// Negative where the call is made anywhere or once.
  int of(size_t node) const { return keys_[node]; }
  int count() const { return 2 * chunks_ - 1; }
  int chunk_of(int key) const { return key < chunks_ ? key : count() - 1 - key; }
  const DevicePtr& device_of(int key, int pipeline = 0) const {
    return stages_.of_chunk(chunk_of(key), pipeline);
  }

 private:
  bool is_keyed(size_t node) const {
    return !times_.is_once(node) && !times_.is_collective(node) && !times_.is_anywhere(node);
  }
  int producer_of(ValueId value) const { return times_.producers()[graph_.storage_of(value)]; }

  /// What a tape computes is beside the call that it is the gradient of.
  void find_backward() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      is_backward_[i] =
          node.near != kNoValue || std::ranges::any_of(node.inputs, [&](ValueId input) {
            const int producer = producer_of(input);
            return producer >= 0 && is_backward_[static_cast<size_t>(producer)];
          });
    }
  }

  /// The latest of what it needs; negative where that is there from the start.
  int floor_of(size_t node) const {
    int floor = -1;
    for (ValueId input : graph_.nodes[node].inputs) {
      if (const int p = producer_of(input); p >= 0) {
        floor = std::max(floor, keys_[static_cast<size_t>(p)]);
      }
    }
    return floor;
  }

  int backward_key(size_t node) const {
    const ValueId near = graph_.nodes[node].near;
    const int producer = near == kNoValue ? -1 : producer_of(near);
    const int key = producer < 0 ? -1 : keys_[static_cast<size_t>(producer)];
    return key < 0 ? -1 : std::max(key, count() - 1 - key);
  }

  int first_use_of(size_t node) const {
    int first = count() - 1;
    for (size_t i = node + 1; i < graph_.nodes.size(); ++i) {
      if (keys_[i] < 0 || keys_[i] >= first) continue;
      const bool uses = std::ranges::any_of(graph_.nodes[i].inputs, [&](ValueId input) {
        return producer_of(input) == static_cast<int>(node);
      });
      if (uses) first = keys_[i];
    }
    return first;
  }

  bool is_placed(size_t node) const {
    if (is_backward_[node] || !is_keyed(node)) return false;
    return asked_device(node) != nullptr || is_listed(node) || is_kept_by_some(node);
  }

  /// The variables that a call reads, itself or by way of calls that are made anywhere.
  std::vector<const StoreRange*> variables_of(size_t node) const {
    std::vector<const StoreRange*> variables;
    for (size_t each : times_.with_needed({node})) {
      for (ValueId range : graph_.nodes[each].ranges) variables.push_back(&graph_.at(range).range);
    }
    return variables;
  }

  /// True when a chunk's list has a layer whose variable the call reads.
  bool is_listed(size_t node) const {
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      if (is_listed(node, chunk)) return true;
    }
    return false;
  }
  bool is_listed(size_t node, int chunk) const {
    if (stages_.layers.empty()) return false;
    const auto& names = stages_.layers[static_cast<size_t>(chunk)];
    return std::ranges::any_of(variables_of(node), [&](const StoreRange* variable) {
      return std::ranges::any_of(
          names, [&](const std::string& layer) { return is_of_layer(variable->name(), layer); });
    });
  }
  /// "'encoder/dense_1/kernel'" is of the layers encoder and dense_1.
  static bool is_of_layer(const std::string& variable, const std::string& layer) {
    return variable.find("'" + layer + "/") != std::string::npos ||
           variable.find("/" + layer + "/") != std::string::npos;
  }

  /// True when not all processes keep the variables that the call reads.
  bool is_kept_by_some(size_t node) const {
    return stages_.homes && keepers_of(node) != stages_.all_processes;
  }
  /// The processes that keep all of them, as far as somebody has said so.
  ProcessList keepers_of(size_t node) const {
    ProcessList keepers = stages_.all_processes;
    for (const StoreRange* variable : variables_of(node)) {
      if (const auto known = stages_.homes->find(*variable)) keepers = common(keepers, *known);
    }
    return keepers;
  }

  /// The device that a scope asks for, or where a variable is that the call reads and not all
  /// stages have; null where neither is.
  DevicePtr asked_device(size_t node) const {
    if (graph_.nodes[node].device) return graph_.nodes[node].device;
    for (ValueId input : graph_.nodes[node].inputs) {
      const int producer = producer_of(input);
      if (producer < 0) continue;
      for (ValueId range : graph_.nodes[static_cast<size_t>(producer)].ranges) {
        const StoreBlock& block = *graph_.at(range).range.block;
        const bool is_everywhere = std::ranges::all_of(
            stages_.devices, [&](const DevicePtr& device) { return block.is_in(device->space()); });
        if (!is_everywhere) return block.components()[0]->device();
      }
    }
    return nullptr;
  }
  bool has_scopes() const {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (is_placed(i)) return true;
    }
    return false;
  }

  /// The chunk that the scope of each forward call names: on its device, not before what it needs.
  std::vector<int> by_scopes() const {
    std::vector<int> chunks(graph_.nodes.size(), -1);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (is_backward_[i] || !is_keyed(i)) continue;
      for (ValueId input : graph_.nodes[i].inputs) {
        if (const int p = producer_of(input); p >= 0) {
          chunks[i] = std::max(chunks[i], chunks[static_cast<size_t>(p)]);
        }
      }
      if (is_placed(i)) chunks[i] = next_chunk_on(i, std::max(chunks[i], 0));
    }
    return chunks;
  }

  /// The first chunk from `chunk` on whose list, or whose processes' memory, has what the call
  /// reads.
  int next_chunk_with(size_t node, int chunk) const {
    const bool is_listed = this->is_listed(node);
    const ProcessList keepers = is_listed ? ProcessList{} : keepers_of(node);
    const auto fits = [&](int candidate) {
      if (is_listed) return this->is_listed(node, candidate);
      for (int p = 0; p < stages_.pipelines(); ++p) {
        if (!includes(keepers, stages_.process_of(candidate, p))) return false;
      }
      return true;
    };
    for (int candidate = chunk; candidate < chunks_; ++candidate) {
      if (fits(candidate)) return candidate;
    }
    if (!is_listed) return chunk;  // Its processes will keep the variables, too.
    throw InvalidArgument(fmt::format(
        "{} of {}: the layers of a pipeline go through its stages in their order, and an input of "
        "this one is of chunk {}",
        graph_.nodes[node].op().name, variables_of(node)[0]->name(), chunk));
  }

  int next_chunk_on(size_t node, int chunk) const {
    const DevicePtr asked = asked_device(node);
    if (!asked) return next_chunk_with(node, chunk);
    if (stages_.homes) {
      throw InvalidArgument(fmt::format(
          "{} on {}: a scope in a pipeline of several processes, whose devices have the same names "
          "in each; PipelineOptions::layers says which layers are on which stage",
          graph_.nodes[node].op().name, asked->name()));
    }
    const auto found = std::ranges::find(stages_.devices, asked);
    const int stage = static_cast<int>(found - stages_.devices.begin());
    const int count = static_cast<int>(stages_.devices.size());
    while (chunk < chunks_ && chunk % count != stage) ++chunk;
    if (found != stages_.devices.end() && chunk < chunks_) return chunk;
    std::string names;
    for (const DevicePtr& device : stages_.devices) names += " " + device->name();
    throw InvalidArgument(
        fmt::format("{} on {}: the layers of a pipeline go through its stages in their order,{}{}",
                    graph_.nodes[node].op().name, asked->name(), names,
                    stages_.chunks > 1 ? fmt::format(", {} times", stages_.chunks) : ""));
  }

  /// Cuts the forward calls into chunks of consecutive ones so that the slowest, with what it hands
  /// on, is as fast as can be.
  std::vector<int> by_costs() const {
    NodeList forward;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (is_keyed(i) && !is_backward_[i]) forward.push_back(i);
    }
    const std::vector<size_t> ends = best_ends(forward);
    std::vector<int> chunks(graph_.nodes.size(), -1);
    size_t begin = 0;
    for (size_t c = 0; c < ends.size(); ++c) {
      for (size_t f = begin; f < ends[c]; ++f) chunks[forward[f]] = static_cast<int>(c);
      begin = ends[c];
    }
    return chunks;
  }

  /// Where each chunk of the calls ends.
  std::vector<size_t> best_ends(const NodeList& forward) const {
    const size_t n = forward.size();
    const std::vector<double> crossing = crossing_times(forward);
    std::vector<double> until(n + 1, 0);
    for (size_t f = 0; f < n; ++f) until[f + 1] = until[f] + time_of(graph_.nodes[forward[f]]);
    // best[c][f]: the time of the slowest of c chunks that hold the first f calls.
    const auto chunks = static_cast<size_t>(chunks_);
    constexpr double kNever = 1e300;
    std::vector<std::vector<double>> best(chunks + 1, std::vector<double>(n + 1, kNever));
    std::vector<std::vector<size_t>> begins(chunks + 1, std::vector<size_t>(n + 1, 0));
    best[0][0] = 0;
    for (size_t c = 1; c <= chunks; ++c) {
      for (size_t end = 0; end <= n; ++end) {
        for (size_t begin = 0; begin <= end; ++begin) {
          const double own = until[end] - until[begin] + crossing[begin] + crossing[end];
          const double slowest = std::max(best[c - 1][begin], own);
          if (slowest >= best[c][end]) continue;
          best[c][end] = slowest;
          begins[c][end] = begin;
        }
      }
    }
    std::vector<size_t> ends(chunks);
    size_t end = n;
    for (size_t c = chunks; c > 0; --c) {
      ends[c - 1] = end;
      end = begins[c][end];
    }
    return ends;
  }

  /// What it takes to hand on, at each place between two calls, the values that are needed behind.
  std::vector<double> crossing_times(const NodeList& forward) const {
    std::vector<double> times(forward.size() + 1, 0);
    std::map<size_t, size_t> place_of;
    for (size_t f = 0; f < forward.size(); ++f) place_of[forward[f]] = f;
    std::map<ValueId, std::pair<size_t, size_t>> lives;  // From its call to its last use.
    for (size_t f = 0; f < forward.size(); ++f) {
      for (ValueId input : graph_.nodes[forward[f]].inputs) {
        const int p = producer_of(input);
        if (p < 0 || !place_of.contains(static_cast<size_t>(p))) continue;
        lives[graph_.storage_of(input)] = {place_of.at(static_cast<size_t>(p)), f};
      }
    }
    constexpr double kBytesPerSecond = 5e9;
    for (const auto& [value, life] : lives) {
      const double seconds =
          static_cast<double>(graph_.at(value).type.bytes(kNominalRows)) / kBytesPerSecond;
      for (size_t at = life.first + 1; at <= life.second; ++at) times[at] += seconds;
    }
    return times;
  }

  static double time_of(const Node& node) {
    constexpr double kOperationsPerSecond = 5e10;
    constexpr double kBytesPerSecond = 1e10;
    const op::Cost cost = op::cost_of(node.signature.resolved(kNominalRows));
    return std::max(cost.flops / kOperationsPerSecond, cost.bytes / kBytesPerSecond);
  }

  const Graph& graph_;
  const CallTimes& times_;
  const PipelineStages& stages_;
  const int chunks_;
  std::vector<int> keys_;
  std::vector<bool> is_backward_;
};

/// What the values of sums are made of where stages that do not share memory have added to them:
/// the terms, which are summed apart.
class TermsOfSums {
 public:
  TermsOfSums(const Graph& graph, const CallTimes& times, const PassKeys& keys,
              const PipelineStages& stages)
      : graph_(graph), times_(times), keys_(keys), stages_(stages), uses_(graph) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (!is_sum(graph.nodes[i]) || !times.is_collective(i)) continue;
      for (ValueId input : graph.nodes[i].inputs) split(input, terms_[input]);
    }
  }

  /// The terms of value `index` of a collective.
  ValueIds of(const Node& collective, size_t index) const {
    const auto known = terms_.find(collective.inputs[index]);
    return known == terms_.end() ? ValueIds{collective.inputs[index]} : known->second;
  }

  /// True for an addition in the place of which terms are summed.
  bool replaces(size_t node) const { return replaced_.contains(node); }

  /// The segment that a value is computed in.
  int key_of(ValueId value) const {
    const int producer = producer_of(value);
    return producer < 0 ? 0 : std::max(keys_.of(static_cast<size_t>(producer)), 0);
  }

 private:
  int producer_of(ValueId value) const { return times_.producers()[graph_.storage_of(value)]; }

  void split(ValueId value, ValueIds& terms) {
    const int producer = producer_of(value);
    if (producer >= 0 && joins_stages(static_cast<size_t>(producer), value)) {
      replaced_.insert(static_cast<size_t>(producer));
      for (ValueId input : graph_.nodes[static_cast<size_t>(producer)].inputs) split(input, terms);
    } else {
      terms.push_back(value);
    }
  }

  /// True for an addition that nobody else uses, of values of stages apart.
  bool joins_stages(size_t node, ValueId value) const {
    const Node& call = graph_.nodes[node];
    if (call.op().name != "add" || keys_.of(node) < 0 || uses_.of(value).size() != 1) return false;
    for (ValueId input : call.inputs) {
      if (graph_.at(input).type != graph_.at(value).type || times_.is_anywhere(input) ||
          producer_of(input) < 0) {
        return false;
      }
    }
    return are_apart(key_of(call.inputs[0]), key_of(call.inputs[1])) ||
           std::ranges::any_of(call.inputs, [&](ValueId input) {
             return joins_stages(static_cast<size_t>(producer_of(input)), input);
           });
  }

  bool are_apart(int a, int b) const {
    return stages_.process_of(keys_.chunk_of(a), 0) != stages_.process_of(keys_.chunk_of(b), 0) ||
           &keys_.device_of(a)->space() != &keys_.device_of(b)->space();
  }

  const Graph& graph_;
  const CallTimes& times_;
  const PassKeys& keys_;
  const PipelineStages& stages_;
  const Uses uses_;
  std::map<ValueId, ValueIds> terms_;
  std::set<size_t> replaced_;
};

/// A term of a sum, the segment that it is computed in, and the pipeline.
struct TermOfSum {
  ValueId value;
  int key;
  int pipeline;
};

/// Puts sums in time in the place of collectives, and cuts.
class MicrobatchCutter {
 public:
  MicrobatchCutter(Graph& graph, int microbatches, const PipelineStages& stages, uint64_t owner)
      : graph_(graph),
        stages_(stages),
        owner_(owner),
        in_each_pipeline_(microbatches / stages.pipelines()) {}

  MicrobatchCut run() {
    const CallTimes times(graph_);
    const PassKeys keys(graph_, times, stages_);
    using Passes = std::vector<NodeList>;
    const TermsOfSums terms(graph_, times, keys, stages_);
    Passes common(static_cast<size_t>(keys.count()));
    NodeList once;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (times.is_once(i)) once.push_back(i);
      if (keys.of(i) >= 0 && !terms.replaces(i)) {
        common[static_cast<size_t>(keys.of(i))].push_back(i);
      }
    }
    for (size_t key = 0; key < common.size(); ++key) {
      note_homes(times.with_needed(common[key]),
                 processes_of(keys.chunk_of(static_cast<int>(key))));
    }
    std::vector<Passes> passes(static_cast<size_t>(stages_.pipelines()), common);
    const size_t calls = graph_.nodes.size();
    for (size_t i = 0; i < calls; ++i) {
      if (!times.is_collective(i)) continue;
      for (size_t v = 0; v < graph_.nodes[i].inputs.size(); ++v) {
        std::vector<TermOfSum> parts;
        for (ValueId term : terms.of(graph_.nodes[i], v)) {
          const int key = terms.key_of(term);
          for (int p = 0; p < pipelines_of(graph_.nodes[i]); ++p) parts.push_back({term, key, p});
          if (times.is_anywhere(term)) {
            const auto producer = static_cast<size_t>(times.producers()[graph_.storage_of(term)]);
            note_homes(times.with_needed({producer}), processes_of(keys.chunk_of(key)));
          }
        }
        sum_in_time(i, v, parts, keys, passes, once);
      }
    }
    for (size_t i = 0; i < calls; ++i) {
      if (!times.is_collective(i) && !terms.replaces(i)) continue;
      graph_.nodes[i].inputs.clear();
      graph_.nodes[i].outputs.clear();
    }
    return cut(times, keys, passes, once);
  }

  /// Those that a collective's value comes from: a broadcast is of the first micro-batch.
  int pipelines_of(const Node& collective) const {
    return is_broadcast(collective) ? 1 : stages_.pipelines();
  }

 private:
  MicrobatchCut cut(const CallTimes& times, const PassKeys& keys,
                    const std::vector<std::vector<NodeList>>& passes, NodeList once) {
    MicrobatchCut result;
    ValueMap<int> arguments(graph_.values.size(), -1);
    for (size_t i = 0; i < graph_.arguments.size(); ++i) {
      arguments[graph_.arguments[i]] = static_cast<int>(i);
    }
    ValueMap<int> tensor_of;  // The same for all pipelines.
    for (int p = 0; p < stages_.pipelines(); ++p) {
      tensor_of = arguments;
      result.each.push_back(
          cut_pipeline(times, keys, p, passes[static_cast<size_t>(p)], tensor_of));
    }
    cut_once(times, std::move(once), tensor_of, result);
    return result;
  }

  std::vector<Segment> cut_pipeline(const CallTimes& times, const PassKeys& keys, int pipeline,
                                    const std::vector<NodeList>& passes,
                                    ValueMap<int>& tensor_of) const {
    std::vector<Segment> segments;
    auto tensors = static_cast<int>(graph_.arguments.size());
    const Uses uses(graph_);
    for (size_t key = 0; key < passes.size(); ++key) {
      const DevicePtr& device = keys.device_of(static_cast<int>(key), pipeline);
      const NodeList nodes = times.with_needed(passes[key]);
      if (stages_.is_here(keys.chunk_of(static_cast<int>(key)), pipeline)) {
        check_variables(nodes, *device);
      }
      Extract extract(graph_, nodes, device, tensor_of);
      for (size_t node : passes[key]) {
        for (ValueId output : graph_.nodes[node].outputs) {
          if (is_used_by_others(uses, output, passes[key])) extract.add_result(output, tensors++);
        }
      }
      segments.push_back(extract.take());
    }
    return segments;
  }

  /// Throws Unimplemented where a stage uses a variable that another one's memory has.
  void check_variables(const NodeList& nodes, const devices::Device& device) const {
    for (size_t node : nodes) {
      for (ValueId range : graph_.nodes[node].ranges) {
        const StoreRange& variable = graph_.at(range).range;
        if (variable.block->is_in(device.space())) continue;
        throw Unimplemented(fmt::format(
            "variable {} is on {}, and a stage on {}, which does not share memory with it, uses it "
            "too; create it under a scope of that device, and use it on one stage alone",
            variable.name(), variable.block->components()[0]->device()->name(), device.name()));
      }
    }
  }

  /// What runs once, the results that no micro-batch computes among it.
  void cut_once(const CallTimes& times, NodeList once, const ValueMap<int>& tensor_of,
                MicrobatchCut& result) {
    for (ValueId value : graph_.results) {
      if (times.is_anywhere(value)) {
        once.push_back(static_cast<size_t>(times.producers()[graph_.storage_of(value)]));
      }
    }
    const size_t reads = reads_;
    NodeList nodes(once.begin(), once.begin() + static_cast<ptrdiff_t>(reads));
    const NodeList rest =
        times.with_needed({once.begin() + static_cast<ptrdiff_t>(reads), once.end()});
    nodes.insert(nodes.end(), rest.begin(), rest.end());
    ValueIds wanted;
    for (ValueId value : graph_.results) {
      const bool of_each = tensor_of[value] >= 0;
      result.results.push_back(
          {of_each, of_each ? tensor_of[value] : static_cast<int>(wanted.size())});
      if (!of_each) wanted.push_back(value);
    }
    result.once = graph::cut_once(graph_, nodes, sums_, stages_, wanted);
    if (stages_.homes) result.kept = kept_variables();
  }

  ProcessList processes_of(int chunk) const {
    ProcessList processes;
    for (int p = 0; p < stages_.pipelines(); ++p) {
      processes = united(processes, {stages_.process_of(chunk, p)});
    }
    return processes;
  }

  /// The processes that make these calls keep what they read.
  void note_homes(const NodeList& nodes, const ProcessList& processes) const {
    if (!stages_.homes) return;
    for (size_t node : nodes) {
      for (ValueId range : graph_.nodes[node].ranges) {
        stages_.homes->add(graph_.at(range).range, processes);
      }
    }
  }

  std::vector<KeptVariable> kept_variables() const {
    std::vector<KeptVariable> kept;
    for (const Value& value : graph_.values) {
      if (value.source != Value::Source::range || !value.range.block) continue;
      const auto processes = stages_.homes->find(value.range);
      if (processes) kept.push_back({value.range, *processes});
    }
    return kept;
  }

  /// The calls that add to sums, whosever they are, stand beside what they add.
  bool is_used_by_others(const Uses& uses, ValueId value, const NodeList& pass) const {
    return std::ranges::any_of(uses.of(value), [&](const Use& use) {
      return !adds_.contains(use.call) && std::ranges::find(pass, use.call) == pass.end();
    });
  }

  /// Each part of value `index` of a collective has a sum over the micro-batches of its pipeline.
  /// The calls that add to these are put into the passes; those that read them and add them up run
  /// once.
  void sum_in_time(size_t collective, size_t index, const std::vector<TermOfSum>& parts,
                   const PassKeys& keys, std::vector<std::vector<NodeList>>& passes,
                   NodeList& once) {
    Node met = graph_.nodes[collective];
    const ValueId total = met.outputs[index];
    const Value alike{.type = graph_.at(total).type};
    ValueId so_far = kNoValue;
    for (size_t i = 0; i < parts.size(); ++i) {
      const TermOfSum& part = parts[i];
      const int chunk = keys.chunk_of(part.key);
      const bool is_here = stages_.is_here(chunk, part.pipeline);
      met.inputs[index] = part.value;
      SumInTime calls = graph::sum_in_time(
          graph_, met, index, is_here ? keys.device_of(part.key, part.pipeline) : DevicePtr(),
          owner_, part.pipeline * in_each_pipeline_, stages_.member_count());
      if (parts.size() > 1) calls.read.outputs = {graph_.add_value(alike)};
      const ValueId own = calls.read.outputs[0];
      if (is_here) {
        NodeList& pass = passes[static_cast<size_t>(part.pipeline)][static_cast<size_t>(part.key)];
        if (stages_.member_count() > 1) pass.push_back(sum_over_members(calls.add));
        graph_.nodes.push_back(std::move(calls.add));
        adds_.insert(graph_.nodes.size() - 1);
        pass.push_back(graph_.nodes.size() - 1);
      }
      run_first(std::move(calls.read), once);
      if (stages_.homes) {
        sums_[graph_.nodes.size() - 1] = stages_.process_of(chunk, part.pipeline);
      }
      if (i == 0) {
        so_far = own;
        continue;
      }
      const ValueId sum = i + 1 == parts.size() ? total : graph_.add_value(alike);
      run_first(addition(so_far, own, sum, alike.type), once);
      so_far = sum;
    }
  }

  /// The call that sums what `add` adds over the members of a micro-batch first.
  size_t sum_over_members(Node& add) {
    if (add.signature.attrs.get<bool>("first_only")) {
      throw Unimplemented(
          "broadcast: in a mesh with stages, of a value that replicas do not have in common");
    }
    const op::TensorType type = add.signature.inputs[0];
    Node sum;
    sum.signature = {.op = &op::find_op("sum_over_model"),
                     .inputs = {type},
                     .outputs = {type},
                     .attrs = {{"model", int64_t{stages_.member_count()}}, {"alone", true}},
                     .ranges = {}};
    sum.inputs = add.inputs;
    sum.outputs = {graph_.add_value({.type = type})};
    add.inputs = sum.outputs;
    graph_.nodes.push_back(std::move(sum));
    adds_.insert(graph_.nodes.size() - 1);
    return graph_.nodes.size() - 1;
  }

  /// Puts a call behind those that read sums, before all others that run once.
  void run_first(Node node, NodeList& once) {
    graph_.nodes.push_back(std::move(node));
    once.insert(once.begin() + static_cast<ptrdiff_t>(reads_++), graph_.nodes.size() - 1);
  }

  static Node addition(ValueId a, ValueId b, ValueId sum, const op::TensorType& type) {
    Node node;
    node.signature = {.op = &op::find_op("add"),
                      .inputs = {type, type},
                      .outputs = {type},
                      .attrs = {},
                      .ranges = {}};
    node.inputs = {a, b};
    node.outputs = {sum};
    return node;
  }

  Graph& graph_;
  const PipelineStages& stages_;
  const uint64_t owner_;
  const int in_each_pipeline_;  // Micro-batches.
  std::set<size_t> adds_;       // The calls that add to sums.
  size_t reads_ = 0;            // The calls at the begin of what runs once that read sums.
  std::map<size_t, int> sums_;  // Those of them that read, and who has the sum.
};

/// The members of a micro-batch are all replicas of its programs.
void sum_members_alone(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (node.op().name == "sum_over_model") {
      node.signature.attrs = node.signature.attrs.with("alone", true);
    }
  }
}

}  // namespace

MicrobatchCut cut_microbatches(Graph graph, int replicas, const PipelineStages& stages,
                               uint64_t owner) {
  make_smaller(graph);
  drop_needless_collectives(graph, replicas);
  std::optional<Segment> first = take_early_sums(graph, stages.devices[0], owner);
  copy_shared_results(graph);
  sum_members_alone(graph);
  const int microbatches = replicas / stages.member_count();
  MicrobatchCut cut = MicrobatchCutter(graph, microbatches, stages, owner).run();
  cut.first = std::move(first);
  return cut;
}

}  // namespace tandem::graph
