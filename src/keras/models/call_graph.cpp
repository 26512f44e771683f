#include "keras/models/call_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "tandem/error.h"

namespace tandem::keras {
namespace {

using CallPtr = const DescribedCall*;

class Walk {
 public:
  Walk(const std::string& model, const KerasTensors& inputs) : model_(model), inputs_(inputs) {}

  /// A depth-first search with a stack of its own: models may be deeper than the thread's stack.
  void from(const KerasTensor& output) {
    struct Visit {
      CallPtr call;
      size_t next = 0;
    };
    std::vector<Visit> open;
    const auto enter = [&](const KerasTensor& tensor) {
      CallPtr call = tensor.made_by().get();
      if (finished_.contains(call) || ends_at(tensor)) return;
      met_.try_emplace(call->layer.get(), met_.size());
      open.push_back({call});
    };
    enter(output);
    while (!open.empty()) {
      Visit& visit = open.back();
      if (visit.next < visit.call->inputs.size()) {
        enter(visit.call->inputs[visit.next++]);
        continue;
      }
      if (finished_.insert(visit.call).second) calls_.push_back(visit.call);
      open.pop_back();
    }
  }

  CallGraph graph() {
    CallGraph graph;
    graph.calls = calls_;
    const std::map<int, std::vector<CallPtr>, std::greater<>> by_depth = depths();
    std::unordered_map<const LayerBody*, int> calls_of;
    for (CallPtr call : calls_) ++calls_of[call->layer.get()];
    for (const auto& [depth, side_by_side] : by_depth) {
      if (side_by_side.size() > 1) graph.is_chain = false;
    }
    std::vector<std::pair<int, CallPtr>> firsts;  // A layer stands where its deepest call does.
    std::unordered_set<const LayerBody*> placed;
    for (const auto& [depth, side_by_side] : by_depth) {
      for (CallPtr call : side_by_side) {
        if (placed.insert(call->layer.get()).second) firsts.emplace_back(depth, call);
        if (call->inputs.size() > 1 || calls_of[call->layer.get()] > 1) graph.is_chain = false;
      }
    }
    std::ranges::stable_sort(firsts, [&](const auto& a, const auto& b) {
      if (a.first != b.first) return a.first > b.first;
      return met_.at(a.second->layer.get()) < met_.at(b.second->layer.get());
    });
    for (const auto& [depth, call] : firsts) graph.layers.push_back(call->layer);
    return graph;
  }

 private:
  /// Inputs of the model are calls too, but only where they are inputs of nothing described.
  bool ends_at(const KerasTensor& tensor) const {
    const bool listed = std::ranges::any_of(inputs_, [&](const KerasTensor& input) {
      return input.made_by() == tensor.made_by() && input.index() == tensor.index();
    });
    if (!listed && tensor.made_by()->is_input) {
      throw InvalidArgument(
          fmt::format("{}: an output depends on '{}', which is not among the inputs", model_,
                      tensor.made_by()->layer->name()));
    }
    return listed && !tensor.made_by()->is_input;
  }

  std::map<int, std::vector<CallPtr>, std::greater<>> depths() const {
    std::unordered_map<CallPtr, int> of_call;
    std::unordered_map<const LayerBody*, int> of_layer;
    for (size_t i = calls_.size(); i-- > 0;) {
      int& of_this_layer = of_layer[calls_[i]->layer.get()];
      const int depth = std::max(of_call[calls_[i]], of_this_layer);
      of_this_layer = of_call[calls_[i]] = depth;
      for (const KerasTensor& input : calls_[i]->inputs) {
        int& before = of_call[input.made_by().get()];
        before = std::max(before, depth + 1);
      }
    }
    std::map<int, std::vector<CallPtr>, std::greater<>> by_depth;
    for (CallPtr call : calls_) by_depth[of_call.at(call)].push_back(call);
    return by_depth;
  }

  const std::string& model_;
  const KerasTensors& inputs_;
  std::unordered_set<CallPtr> finished_;
  std::unordered_map<const LayerBody*, size_t> met_;
  std::vector<CallPtr> calls_;
};

}  // namespace

CallGraph call_graph(const std::string& model, const KerasTensors& inputs,
                     const KerasTensors& outputs) {
  Walk walk(model, inputs);
  for (const KerasTensor& output : outputs) walk.from(output);
  // Inputs that no output needs are layers of the model all the same.
  for (const KerasTensor& input : inputs) {
    if (input.made_by()->is_input) walk.from(input);
  }
  return walk.graph();
}

}  // namespace tandem::keras
