// A process has the sums of its own stages and keeps the variables of these. So each call that runs
// once has a home, the processes that make it: those that keep its variable; where its inputs are;
// or, where these come from several, all of them. What a call needs and its home has not crosses
// from one process to another, and the calls of a process are cut there into levels.
//
//   before   %5 = sum of stage 0  %6 = sum of stage 1  %7 = square(%5)  %8 = square(%6)
//            %9 = add(%7, %8)  update(w0, w1, %5 / %9, %6 / %9)
//
//   after    process 0: %7 = square(%5)  %7 to process 1, %8 from there
//                       %9 = add(%7, %8)  update(w0, %5 / %9)
//            process 1: %8 = square(%6)  %8 to process 0, %7 from there
//                       %9 = add(%7, %8)  update(w1, %6 / %9)
//
// A sum that several levels use is read in each of them, so that it need not be kept twice.
#include "graph/once_levels.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/exchange_depths.h"
#include "graph/passes/extract.h"
#include "op/update.h"
#include "tandem/error.h"

namespace tandem::graph {
namespace {

class OnceCutter {
 public:
  OnceCutter(Graph& graph, const std::map<size_t, int>& sums, const PipelineStages& stages)
      : graph_(graph),
        sums_(sums),
        stages_(stages),
        made_(graph.values.size()),
        goes_to_(graph.values.size()),
        is_wanted_(graph.values.size(), false) {}

  OnceCut run(const std::vector<size_t>& nodes, const ValueIds& results) {
    for (size_t node : nodes) place(node);
    find_crossings(results);
    find_needed();
    return cut(results);
  }

 private:
  struct PlacedCall {
    size_t node = 0;
    ProcessList home{};
    int level = 0;
    bool is_sum = false;
    bool is_needed = false;  ///< By this process, which is one of its home.
  };
  /// What computes a value; negative where that is not done once.
  struct Maker {
    int call = -1;  ///< Among the placed ones.
  };
  struct RangeLevels {
    int read = 0;
    int written = 0;
  };

  const ProcessList& everywhere() const { return stages_.all_processes; }
  bool is_here(const ProcessList& home) const { return includes(home, stages_.own_process); }

  const PlacedCall* maker_of(ValueId value) const {
    const int call = made_[graph_.storage_of(value)].call;
    return call < 0 ? nullptr : &placed_[static_cast<size_t>(call)];
  }

  void place(size_t index) {
    const Node& node = graph_.nodes[index];
    if (node.op().is_update && stages_.homes) return place_update(index);
    add(index, home_of(index));
  }

  ProcessList home_of(size_t index) const {
    if (const auto sum = sums_.find(index); sum != sums_.end()) return {sum->second};
    const Node& node = graph_.nodes[index];
    return node.ranges.empty() ? home_of_inputs(node) : home_of_variables(node);
  }

  ProcessList home_of_variables(const Node& node) const {
    ProcessList home = everywhere();
    for (ValueId range : node.ranges) {
      const StoreRange& variable = graph_.at(range).range;
      home = common(home, keepers_of(variable, everywhere()));
      if (!home.empty()) continue;
      throw Unimplemented(
          fmt::format("{}: it uses variables that different processes keep, {} among them",
                      node.op().name, variable.name()));
    }
    return home;
  }

  /// Where all inputs are; where no process has all, those that have some.
  ProcessList home_of_inputs(const Node& node) const {
    ProcessList all = everywhere();
    ProcessList some;
    for (ValueId input : node.inputs) {
      const PlacedCall* maker = maker_of(input);
      if (maker == nullptr || maker->home == everywhere()) continue;
      all = common(all, maker->home);
      some = united(some, maker->home);
    }
    return all.empty() ? some : all;
  }

  /// Who keeps a variable. Where no function has said so before, it is `unknown` from now on.
  ProcessList keepers_of(const StoreRange& range, const ProcessList& unknown) const {
    if (!stages_.homes) return everywhere();
    if (auto known = stages_.homes->find(range)) return *known;
    stages_.homes->add(range, unknown);
    return unknown;
  }

  /// Each variable is updated where it is kept, and its slots are kept there, too.
  void place_update(size_t index) {
    const Node whole = graph_.nodes[index];
    const op::UpdateLayout layout(whole.signature);
    std::map<ProcessList, std::vector<size_t>> by_home;
    for (size_t v = 0; v < layout.variables(); ++v) {
      const PlacedCall* gradient = maker_of(whole.inputs[v]);
      const ProcessList home = keepers_of(graph_.at(whole.ranges[layout.variable(v)]).range,
                                          gradient ? gradient->home : everywhere());
      for (size_t k = 0; k < layout.slots_each(); ++k) {
        stages_.homes->add(graph_.at(whole.ranges[layout.slot(v, k)]).range, home);
      }
      by_home[home].push_back(v);
    }
    if (by_home.size() == 1) return add(index, by_home.begin()->first);
    for (const auto& [home, variables] : by_home) {
      graph_.nodes.push_back(part_of_update(whole, layout, variables));
      add(graph_.nodes.size() - 1, home);
    }
  }

  static Node part_of_update(const Node& whole, const op::UpdateLayout& layout,
                             const std::vector<size_t>& variables) {
    Node part = whole;
    part.inputs.clear();
    part.ranges.clear();
    part.signature.inputs.clear();
    part.signature.ranges.clear();
    const auto take_input = [&](size_t i) {
      part.inputs.push_back(whole.inputs[i]);
      part.signature.inputs.push_back(whole.signature.inputs[i]);
    };
    for (size_t v : variables) {
      take_input(v);
      for (size_t r = 0; r <= layout.slots_each(); ++r) {
        part.ranges.push_back(whole.ranges[layout.variable(v) + r]);
        part.signature.ranges.push_back(whole.signature.ranges[layout.variable(v) + r]);
      }
    }
    for (size_t scalar : {layout.rate(), layout.step(), layout.condition()}) take_input(scalar);
    return part;
  }

  void add(size_t index, const ProcessList& home) {
    const Node& node = graph_.nodes[index];
    int level = 0;
    for (ValueId input : node.inputs) {
      if (const PlacedCall* maker = maker_of(input)) {
        level = std::max(level, maker->level + (includes(maker->home, home) ? 0 : 1));
      }
    }
    for (ValueId range : node.ranges) {
      const RangeLevels& known = ranges_[memory_of(graph_.at(range).range)];
      level = std::max(level, known.written);
      if (node.op().writes_ranges) level = std::max(level, known.read);
    }
    for (ValueId range : node.ranges) {
      RangeLevels& known = ranges_[memory_of(graph_.at(range).range)];
      int& latest = node.op().writes_ranges ? known.written : known.read;
      latest = std::max(latest, level);
    }
    for (ValueId output : node.outputs) made_[output] = {static_cast<int>(placed_.size())};
    placed_.push_back(
        {.node = index, .home = home, .level = level, .is_sum = sums_.contains(index)});
    levels_ = std::max(levels_, level + 1);
  }

  void find_crossings(const ValueIds& results) {
    const auto need = [&](ValueId value, const ProcessList& who) {
      const PlacedCall* maker = maker_of(value);
      if (maker == nullptr) return;
      ProcessList missing;
      std::ranges::set_difference(who, maker->home, std::back_inserter(missing));
      ProcessList& to = goes_to_[graph_.storage_of(value)];
      to = united(to, missing);
    };
    for (const PlacedCall& call : placed_) {
      for (ValueId input : graph_.nodes[call.node].inputs) need(input, call.home);
    }
    for (ValueId result : results) {
      need(result, everywhere());
      is_wanted_[result] = true;
    }
  }

  bool is_sent(ValueId value, const PlacedCall& maker) const {
    return !goes_to_[value].empty() && maker.home.front() == stages_.own_process;
  }

  /// Leaves out those calls that all processes make and whose results this one does not need.
  void find_needed() {
    ValueMap<bool> is_used(graph_.values.size(), false);
    for (size_t i = placed_.size(); i-- > 0;) {
      PlacedCall& call = placed_[i];
      const Node& node = graph_.nodes[call.node];
      if (!is_here(call.home)) continue;
      call.is_needed = node.outputs.empty() || node.op().writes_ranges ||
                       std::ranges::any_of(node.outputs, [&](ValueId output) {
                         return is_used[output] || is_wanted_[output] || is_sent(output, call);
                       });
      if (!call.is_needed) continue;
      for (ValueId input : node.inputs) is_used[graph_.storage_of(input)] = true;
    }
  }

  OnceCut cut(const ValueIds& results) {
    OnceCut once;
    ValueMap<int> tensor_of(graph_.values.size(), -1);
    int tensors = 0;
    for (ValueId argument : graph_.arguments) tensor_of[argument] = tensors++;
    for (int level = 0; level < levels_; ++level) {
      OnceLevel& own = once.levels.emplace_back();
      cut_level(level, tensor_of, tensors, own);
      add_crossings(level, tensor_of, tensors, own);
    }
    for (ValueId result : results) once.results.push_back(tensor_of[result]);
    return once;
  }

  void cut_level(int level, ValueMap<int>& tensor_of, int& tensors, OnceLevel& own) {
    std::vector<size_t> calls = calls_of(level);
    if (calls.empty()) return;
    std::vector<size_t> nodes;
    for (size_t call : calls) {
      for (size_t node : by_memory(placed_[call].node)) nodes.push_back(node);
    }
    const devices::DevicePtr& device = own_device();
    Extract extract(graph_, nodes, device, tensor_of);
    for (size_t call : calls) {
      if (placed_[call].level != level) continue;  // A sum that is read again.
      for (ValueId output : graph_.nodes[placed_[call].node].outputs) {
        if (is_kept(output, placed_[call])) extract.add_result(output, tensors++);
      }
    }
    Segment segment = extract.take();
    own.arguments = std::move(segment.inputs);
    own.part = partition(std::move(segment.graph), {device, "the first stage"});
  }

  /// An update as one for each memory space of its variables, where stages of a process have their
  /// own.
  std::vector<size_t> by_memory(size_t index) {
    if (!graph_.nodes[index].op().is_update) return {index};
    const Node whole = graph_.nodes[index];
    const op::UpdateLayout layout(whole.signature);
    std::vector<std::pair<const devices::MemorySpace*, std::vector<size_t>>> spaces;
    for (size_t v = 0; v < layout.variables(); ++v) {
      const StoreBlock& block = *graph_.at(whole.ranges[layout.variable(v)]).range.block;
      const devices::MemorySpace* space = &block.components()[0]->device()->space();
      auto known = std::ranges::find(spaces, space, [](const auto& each) { return each.first; });
      if (known == spaces.end()) known = spaces.insert(known, {space, {}});
      known->second.push_back(v);
    }
    if (spaces.size() == 1) return {index};
    std::vector<size_t> parts;
    for (const auto& [space, variables] : spaces) {
      graph_.nodes.push_back(part_of_update(whole, layout, variables));
      parts.push_back(graph_.nodes.size() - 1);
    }
    return parts;
  }

  /// What this process does at a level: its calls, and before them sums that they need.
  std::vector<size_t> calls_of(int level) const {
    std::vector<size_t> own;
    std::vector<bool> reads(placed_.size(), false);
    for (size_t i = 0; i < placed_.size(); ++i) {
      const PlacedCall& call = placed_[i];
      if (!call.is_needed) continue;
      if (call.is_sum) {
        if (level == 0) reads[i] = is_kept(graph_.nodes[call.node].outputs[0], call);
        continue;
      }
      if (call.level != level) continue;
      own.push_back(i);
      for (ValueId input : graph_.nodes[call.node].inputs) {
        const PlacedCall* maker = maker_of(input);
        if (maker != nullptr && maker->is_sum && is_here(maker->home)) {
          reads[static_cast<size_t>(maker - placed_.data())] = true;
        }
      }
    }
    std::vector<size_t> calls;
    for (size_t i = 0; i < reads.size(); ++i) {
      if (reads[i]) calls.push_back(i);
    }
    calls.insert(calls.end(), own.begin(), own.end());
    return calls;
  }

  /// True when a value is needed behind the level that computes it.
  bool is_kept(ValueId value, const PlacedCall& maker) const {
    if (is_wanted_[value] || is_sent(value, maker)) return true;
    if (maker.is_sum) return false;
    return std::ranges::any_of(placed_, [&](const PlacedCall& call) {
      const ValueIds& inputs = graph_.nodes[call.node].inputs;
      return call.is_needed && call.level > maker.level &&
             std::ranges::find(inputs, value) != inputs.end();
    });
  }

  void add_crossings(int level, ValueMap<int>& tensor_of, int& tensors, OnceLevel& own) const {
    for (const PlacedCall& call : placed_) {
      if (call.level != level) continue;
      for (ValueId output : graph_.nodes[call.node].outputs) {
        const ProcessList& to = goes_to_[output];
        if (to.empty()) continue;
        if (includes(to, stages_.own_process)) tensor_of[output] = tensors++;
        const bool takes_part = includes(to, stages_.own_process) || is_sent(output, call);
        own.crossings.push_back({.tensor = takes_part ? tensor_of[output] : -1,
                                 .from = call.home.front(),
                                 .to = to,
                                 .type = graph_.at(output).type});
      }
    }
  }

  /// That of this process's first stage.
  const devices::DevicePtr& own_device() const {
    for (int p = 0; p < stages_.pipelines(); ++p) {
      for (int chunk = 0; chunk < stages_.chunks_in_all(); ++chunk) {
        if (stages_.is_here(chunk, p)) return stages_.of_chunk(chunk, p);
      }
    }
    return stages_.devices[0];
  }

  Graph& graph_;
  const std::map<size_t, int>& sums_;
  const PipelineStages& stages_;
  std::vector<PlacedCall> placed_;
  ValueMap<Maker> made_;
  ValueMap<ProcessList> goes_to_;  // The processes that a value crosses to.
  ValueMap<bool> is_wanted_;
  std::map<VariableMemory, RangeLevels> ranges_;
  int levels_ = 0;
};

}  // namespace

OnceCut cut_once(Graph& graph, const std::vector<size_t>& nodes, const std::map<size_t, int>& sums,
                 const PipelineStages& stages, const ValueIds& results) {
  return OnceCutter(graph, sums, stages).run(nodes, results);
}

}  // namespace tandem::graph
