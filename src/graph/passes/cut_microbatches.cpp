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
// do not share memory, as those of a tied weight, is taken of each stage's own, and added up once;
// the weight itself is one stage's, and the other has a copy.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph/microbatches.h"
#include "graph/once_levels.h"
#include "graph/passes/extract.h"
#include "graph/pipeline/terms_of_sums.h"
#include "graph/sum_in_time.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::graph {
namespace {

using devices::DevicePtr;

/// A term of a sum, the segment that it is computed in, and the pipeline.
struct TermOfSum {
  ValueId value;
  int key;
  int pipeline;
};

/// Puts sums in time in the place of collectives, and cuts.
class MicrobatchCutter {
 public:
  MicrobatchCutter(Graph& graph, int microbatches, const PipelineStages& stages,
                   const StageSearch& search, uint64_t owner)
      : graph_(graph),
        stages_(stages),
        search_(search),
        owner_(owner),
        in_each_pipeline_(microbatches / stages.pipelines()) {}

  MicrobatchCut run() {
    const CallTimes times(graph_);
    const PassKeys keys(graph_, times, stages_, search_);
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
      const NodeList nodes = times.with_needed(common[key]);
      const int chunk = keys.chunk_of(static_cast<int>(key));
      place_variables(nodes, chunk);
      note_homes(nodes, processes_of(chunk));
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
        const Node* const to_part = terms.summed_to_parts(graph_.nodes[i], v);
        sum_in_time(i, v, parts, to_part, keys, passes, once);
      }
    }
    for (size_t i = 0; i < calls; ++i) {
      if (!times.is_collective(i) && !terms.replaces(i)) continue;
      graph_.nodes[i].inputs.clear();
      graph_.nodes[i].outputs.clear();
    }
    MicrobatchCut result = cut(times, keys, passes, once);
    result.chunks_text = keys.text();
    result.is_searched = keys.is_searched();
    return result;
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
    result.copies = std::move(copies_);
    cut_once(times, std::move(once), tensor_of, result);
    return result;
  }

  std::vector<Segment> cut_pipeline(const CallTimes& times, const PassKeys& keys, int pipeline,
                                    const std::vector<NodeList>& passes, ValueMap<int>& tensor_of) {
    std::vector<Segment> segments;
    auto tensors = static_cast<int>(graph_.arguments.size());
    const Uses uses(graph_);
    for (size_t key = 0; key < passes.size(); ++key) {
      const int chunk = keys.chunk_of(static_cast<int>(key));
      const DevicePtr& device = keys.device_of(static_cast<int>(key), pipeline);
      const NodeList nodes = times.with_needed(passes[key]);
      std::map<ValueId, ValueId> instead;
      if (stages_.is_here(chunk, pipeline)) {
        instead = copied_variables(nodes, stages_.members_of(chunk, pipeline));
      }
      Extract extract(graph_, nodes, device, tensor_of, instead);
      for (size_t node : passes[key]) {
        for (ValueId output : graph_.nodes[node].outputs) {
          if (is_used_by_others(uses, output, passes[key])) extract.add_result(output, tensors++);
        }
      }
      segments.push_back(extract.take());
    }
    return segments;
  }

  /// The variables that the calls use and their stage has no memory of, as tied weights of two
  /// stages, with the copies that they use instead.
  std::map<ValueId, ValueId> copied_variables(const NodeList& nodes,
                                              const std::vector<DevicePtr>& members) {
    std::map<ValueId, ValueId> instead;
    for (size_t node : nodes) {
      for (ValueId range : graph_.nodes[node].ranges) {
        if (!graph_.at(range).range.block->is_in(members[0]->space())) {
          instead[range] = copy_on(members, range);
        }
      }
    }
    return instead;
  }

  /// Each member has a copy of what it sees of the variable, the whole or its part.
  ValueId copy_on(const std::vector<DevicePtr>& members, ValueId variable) {
    const auto [known, is_new] = copied_.try_emplace({variable, &members[0]->space()}, kNoValue);
    if (!is_new) return known->second;
    Value copy = graph_.at(variable);
    const StoreRange from = copy.range;
    copy.range = std::make_shared<Store>(members, owner_, members)
                     ->allocate(fmt::format("a copy of {} for a stage", from.name()),
                                from.block->dtype(), from.count, {.parts = from.block->parts()});
    copies_.push_back({from, copy.range});
    return known->second = graph_.add_value(std::move(copy));
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

  /// Where a process has several stages, a variable that nobody has used so far goes to the memory
  /// of the first one that reads it.
  void place_variables(const NodeList& nodes, int chunk) const {
    if (!stages_.homes) return;
    int pipeline = 0;
    while (pipeline < stages_.pipelines() && !stages_.is_here(chunk, pipeline)) ++pipeline;
    if (pipeline == stages_.pipelines()) return;
    const DevicePtr& device = stages_.of_chunk(chunk, pipeline);
    for (size_t node : nodes) {
      for (ValueId range : graph_.nodes[node].ranges) {
        const StoreRange& variable = graph_.at(range).range;
        StoreBlock& block = *variable.block;
        const bool is_free = block.parts() == 1 && is_untouched(block);
        if (is_free && !stages_.homes->find(variable)) block.move_to(device);
      }
    }
  }

  /// Neither the block nor any slot of it has memory.
  static bool is_untouched(const StoreBlock& block) {
    const auto slots = block.slots();
    return !block.has_memory() &&
           std::ranges::none_of(slots, [](const auto& slot) { return slot->has_memory(); });
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
      const auto own = stages_.homes->find(value.range);
      // What is seen in parts is seen as a whole, too.
      if (!own || value.range.stride > 0) continue;
      ProcessList processes;
      for (int process : *own) processes = united(processes, stages_.with_members(process));
      kept.push_back({value.range, std::move(processes), *own});
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
  /// Where there is `to_part`, the members sum it to parts first, or, where that waits, sum the sum
  /// to parts once. The calls that add to these are put into the passes; those that read them and
  /// add them up run once.
  void sum_in_time(size_t collective, size_t index, const std::vector<TermOfSum>& parts,
                   const Node* to_part, const PassKeys& keys,
                   std::vector<std::vector<NodeList>>& passes, NodeList& once) {
    Node met = graph_.nodes[collective];
    const Value alike{.type = graph_.at(met.outputs[index]).type};
    // Members that have parts of a variable sum each its own part of the gradient; of all else
    // they have shares. Those that do not share memory meet once, when all micro-batches are
    // summed.
    const bool in_parts = is_sum_over_holders(met);
    const bool are_apart =
        stages_.member_processes > 1 || stages_.are_members_apart() || stages_.data > 1;
    // Several of those that have rows of their own may have the same part.
    const bool meets_once =
        in_parts ? parts_of(met) < stages_.members_in_all() && stages_.data > 1 : are_apart;
    const bool has_each_its_own = in_parts || meets_once;
    const bool waits = to_part != nullptr && to_part->signature.attrs.get<bool>("waits");
    if (meets_once && is_broadcast(met)) throw_broadcast();
    const ValueId total = meets_once ? graph_.add_value(alike) : met.outputs[index];
    ValueId so_far = kNoValue;
    for (size_t i = 0; i < parts.size(); ++i) {
      const TermOfSum& part = parts[i];
      const int chunk = keys.chunk_of(part.key);
      const bool is_here = stages_.is_here(chunk, part.pipeline);
      met.inputs[index] = part.value;
      if (to_part != nullptr && !waits) {
        graph_.nodes.push_back(to_part_of(*to_part, part.value, graph_.add_value(alike)));
        met.inputs[index] = graph_.nodes.back().outputs[0];
        adds_.insert(graph_.nodes.size() - 1);
        if (is_here) pass_of(part, passes).push_back(graph_.nodes.size() - 1);
      }
      std::shared_ptr<Store> store;
      if (is_here) {
        store = store_on(has_each_its_own ? stages_.members_of(chunk, part.pipeline)
                                          : std::vector{keys.device_of(part.key, part.pipeline)});
      }
      SumInTime calls = graph::sum_in_time(
          graph_, met, index, store, has_each_its_own ? stages_.cut_over_members() : VariableCut(),
          part.pipeline * in_each_pipeline_, stages_.members_in_all());
      const ValueId own = parts.size() > 1 ? graph_.add_value(alike) : total;
      const ValueId read = waits ? graph_.add_value({.type = calls.add.signature.inputs[0]}) : own;
      calls.read.outputs = {read};
      if (is_here) {
        NodeList& pass = pass_of(part, passes);
        const bool meets_now = stages_.member_count() > 1 && !has_each_its_own;
        if (meets_now) pass.push_back(sum_over_members(calls.add));
        graph_.nodes.push_back(std::move(calls.add));
        adds_.insert(graph_.nodes.size() - 1);
        pass.push_back(graph_.nodes.size() - 1);
      }
      run_first(std::move(calls.read), once);
      if (stages_.homes) {
        sums_[graph_.nodes.size() - 1] = stages_.process_of(chunk, part.pipeline);
      }
      if (waits) run_first(to_part_of(*to_part, read, own), once);
      if (i == 0) {
        so_far = own;
        continue;
      }
      const ValueId sum = i + 1 == parts.size() ? total : graph_.add_value(alike);
      run_first(addition(so_far, own, sum, alike.type), once);
      so_far = sum;
    }
    if (meets_once) {
      const ValueId sum = graph_.nodes[collective].outputs[index];
      run_first(in_parts ? sum_over_holders(so_far, sum, alike.type, parts_of(met))
                         : sum_over_members(so_far, sum, alike.type),
                once);
    }
  }

  static Node to_part_of(Node sum, ValueId whole, ValueId part) {
    sum.inputs = {whole};
    sum.outputs = {part};
    return sum;
  }

  static int parts_of(const Node& met) {
    return static_cast<int>(met.signature.attrs.get<int64_t>("parts"));
  }

  static NodeList& pass_of(const TermOfSum& part, std::vector<std::vector<NodeList>>& passes) {
    return passes[static_cast<size_t>(part.pipeline)][static_cast<size_t>(part.key)];
  }

  /// The call that sums what `add` adds over the members of a micro-batch first.
  size_t sum_over_members(Node& add) {
    if (add.signature.attrs.get<bool>("first_only")) throw_broadcast();
    const op::TensorType type = add.signature.inputs[0];
    const ValueId sum = graph_.add_value({.type = type});
    graph_.nodes.push_back(sum_over_members(add.inputs[0], sum, type));
    add.inputs = {sum};
    adds_.insert(graph_.nodes.size() - 1);
    return graph_.nodes.size() - 1;
  }

  Node sum_over_members(ValueId value, ValueId sum, const op::TensorType& type) const {
    const int64_t members = stages_.members_in_all();
    // Where all replicas of what runs once meet, their sums are those of any program.
    if (stages_.data > 1) return call("all_reduce", value, sum, type, {});
    return call("sum_over_model", value, sum, type, {{"model", members}, {"program", members}});
  }

  static Node sum_over_holders(ValueId value, ValueId sum, const op::TensorType& type, int parts) {
    return call("sum_over_holders", value, sum, type, {{"parts", int64_t{parts}}});
  }

  static Node call(const char* op, ValueId value, ValueId result, const op::TensorType& type,
                   op::Attrs attrs) {
    Node node;
    node.signature = {.op = &op::find_op(op),
                      .inputs = {type},
                      .outputs = {type},
                      .attrs = std::move(attrs),
                      .ranges = {}};
    node.inputs = {value};
    node.outputs = {result};
    return node;
  }

  [[noreturn]] static void throw_broadcast() {
    throw Unimplemented(
        "broadcast: in a mesh with stages, of a value that replicas do not have in common");
  }

  /// Where the sums of these devices are: small ones share memory.
  const std::shared_ptr<Store>& store_on(const std::vector<DevicePtr>& devices) {
    std::shared_ptr<Store>& store = stores_[devices];
    if (!store) store = std::make_shared<Store>(devices, owner_, devices);
    return store;
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
  const StageSearch& search_;
  const uint64_t owner_;
  const int in_each_pipeline_;  // Micro-batches.
  std::set<size_t> adds_;       // The calls that add to sums.
  size_t reads_ = 0;            // The calls at the begin of what runs once that read sums.
  std::map<size_t, int> sums_;  // Those of them that read, and who has the sum.
  std::map<std::vector<DevicePtr>, std::shared_ptr<Store>> stores_;
  // Copies of variables, by the memory that has them.
  std::map<std::pair<ValueId, const devices::MemorySpace*>, ValueId> copied_;
  std::vector<VariableCopy> copies_;
};

/// The members of a micro-batch are all replicas of its programs.
void let_members_meet_alone(Graph& graph, int members) {
  for (Node& node : graph.nodes) {
    const std::string& name = node.op().name;
    if (name == "sum_over_model" || name == "join_parts" || name == "sum_to_part") {
      node.signature.attrs = node.signature.attrs.with("program", int64_t{members});
    }
  }
}

}  // namespace

MicrobatchCut cut_microbatches(Graph graph, int replicas, const PipelineStages& stages,
                               uint64_t owner, const StageSearch& search) {
  make_smaller(graph);
  drop_needless_collectives(graph, replicas);
  std::optional<Segment> first = take_early_sums(graph, stages.devices[0], owner);
  copy_shared_results(graph);
  let_members_meet_alone(graph, stages.members_in_all());
  const int microbatches = replicas / stages.members_in_all();
  MicrobatchCut cut = MicrobatchCutter(graph, microbatches, stages, search, owner).run();
  cut.first = std::move(first);
  return cut;
}

}  // namespace tandem::graph
