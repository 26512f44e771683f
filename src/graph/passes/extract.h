/// Makes a piece of a graph a graph of its own.
#pragma once

#include <map>
#include <vector>

#include "graph/passes/passes.h"

namespace tandem::graph {

/// A segment of the calls `nodes` of a graph, in their order. What they use of other calls must
/// have its place among the tensors of the call in `tensor_of`. In the place of some variables they
/// use others, as `instead` says.
class Extract {
 public:
  Extract(const Graph& whole, const std::vector<size_t>& nodes, const devices::DevicePtr& device,
          ValueMap<int>& tensor_of, const std::map<ValueId, ValueId>& instead = {})
      : whole_(whole), tensor_of_(tensor_of) {
    segment_.device = device;
    segment_.graph.random_calls = whole.random_calls;
    for (size_t i : nodes) {
      Node node = whole.nodes[i];
      for (ValueId& input : node.inputs) input = mapped(input);
      for (ValueId& range : node.ranges) {
        const auto other = instead.find(range);
        if (other != instead.end()) {
          replace_in_regions(node, whole.at(range).range, whole.at(other->second).range);
          range = other->second;
        }
        range = mapped(range);
      }
      for (ValueId& output : node.outputs) {
        const ValueId own = segment_.graph.add_value(whole.at(output));
        map_[output] = own;
        output = own;
      }
      segment_.graph.nodes.push_back(std::move(node));
    }
  }

  /// Makes a value that the nodes compute a result; it becomes tensor `index` of the call.
  bool add_result(ValueId value, int index) {
    const auto own = map_.find(value);
    if (own == map_.end()) return false;
    segment_.graph.results.push_back(own->second);
    tensor_of_[value] = index;
    return true;
  }

  Segment take() { return std::move(segment_); }

 private:
  static void replace_in_regions(Node& node, const StoreRange& variable, const StoreRange& other) {
    for (auto& region : node.regions) {
      Region own = *region;
      for (ValueId value : own.graph.values.ids()) {
        StoreRange& range = own.graph.at(value).range;
        if (range == variable) range = other;
      }
      for (Node& inner : own.graph.nodes) replace_in_regions(inner, variable, other);
      region = std::make_shared<const Region>(std::move(own));
    }
  }

  ValueId mapped(ValueId value) {
    const auto [known, added] = map_.try_emplace(value, kNoValue);
    if (!added) return known->second;
    Value copy = whole_.at(value);
    const bool from_outside =
        copy.source == Value::Source::argument || copy.source == Value::Source::node;
    if (from_outside) {
      copy.source = Value::Source::argument;
      segment_.inputs.push_back(tensor_of_[value]);
    }
    known->second = segment_.graph.add_value(std::move(copy));
    if (from_outside) segment_.graph.arguments.push_back(known->second);
    return known->second;
  }

  const Graph& whole_;
  ValueMap<int>& tensor_of_;
  std::map<ValueId, ValueId> map_;  // From the whole's values to the segment's.
  Segment segment_;
};

}  // namespace tandem::graph
