// Replicas of several processes meet over the network, where each meeting costs a latency however
// few bytes it moves. So values that can meet at the same time do. A collective becomes a sum of
// the replicas of this process, an exchange between the processes, and a copy back to its replicas;
// exchanges that do not depend on each other become one, and calls that need their results move
// behind it. With one replica in each process the exchange is all that is left.
//
//   before   %5 = all_reduce(loss)        adam_update(..)   %9 = all_reduce(metrics)
//            %7, %8 = all_reduce(dw, db)
//
//   after    %a, %d = reduce_local(loss, metrics)     %b, %c = reduce_local(dw, db)
//            %e, %f, %g, %h = exchange_sum(%a, %b, %c, %d)
//            %5, %9 = spread_local(%e, %h)            %7, %8 = spread_local(%f, %g)
//            adam_update(..)
//
// Where there is much to sum, gradients are cut into buckets in the order in which they are
// computed. The exchange of a bucket starts behind its last gradient and goes on while others are
// computed; exchange_finish waits for it. Each process then has the sums of its part of each
// gradient, updates that part of the variable and its slots, and gets the rest of the variable from
// the others.
//
//   after    dw2 = matmul(..)   %a = exchange_start(dw2)
//            dw1 = matmul(..)   %b = exchange_start(dw1)
//            %g, .. = exchange_sum(loss, metrics, db2, db1)
//            %c = exchange_finish(%a)   %d = exchange_finish(%b)
//            adam_update(db2, db1)   adam_update(%c)   adam_update(%d)   exchange_gather(w2, w1)
#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "graph/exchange_depths.h"
#include "graph/passes/passes.h"
#include "graph/summed_gradients.h"
#include "op/registry.h"
#include "op/update.h"

namespace tandem::graph {
namespace {

/// One value that replicas sum, or have from the first.
struct Met {
  ValueId input;
  ValueId output;
  size_t computed;  ///< How many of the calls so far are before it is there.
  bool is_updated;  ///< Updates use the sum, as a gradient, and norms of parts; nobody else does.
};
using MetValues = std::vector<Met>;

/// Puts exchanges in the place of the collectives of one depth.
class Merger {
 public:
  Merger(Graph& graph, int local, size_t bucket_bytes)
      : graph_(graph), local_(local), bucket_bytes_(bucket_bytes) {}

  void add(Node node) {
    const bool has_parts =
        node.op().is_update &&
        std::ranges::any_of(node.inputs, [&](ValueId input) { return in_parts_.contains(input); });
    if (has_parts) {
      add_update_in_parts(node);
    } else {
      note_parts(node);
      nodes_.push_back(std::move(node));
    }
  }

  /// Meets after all calls so far.
  void broadcast(const MetValues& met) {
    if (!met.empty()) exchange(met, "exchange_broadcast");
  }

  void sum(MetValues met) {
    if (met.empty()) return;
    std::ranges::stable_sort(met, {}, &Met::computed);
    MetValues whole;
    const std::vector<MetValues> buckets = cut(met, whole);
    const std::vector<MetValues> started = start(buckets);
    if (!whole.empty()) exchange(whole, "exchange_sum");
    for (const MetValues& bucket : started) finish(bucket);
  }

  /// How many of the calls so far come before `value` is there.
  size_t computed(ValueId value) const {
    const ValueId storage = graph_.storage_of(value);
    for (size_t i = nodes_.size(); i-- > 0;) {
      if (std::ranges::find(nodes_[i].outputs, storage) != nodes_[i].outputs.end()) return i + 1;
    }
    return 0;
  }

  std::vector<Node> take() { return std::move(nodes_); }

 private:
  size_t bytes_of(const Met& met) const { return graph_.at(met.input).type.bytes(); }

  /// Buckets of gradients, each of at least so many bytes, in the order of the values. What is left
  /// over, and what is not a gradient, is `whole`.
  std::vector<MetValues> cut(const MetValues& met, MetValues& whole) const {
    std::vector<MetValues> buckets;
    MetValues open;
    size_t bytes = 0;
    for (const Met& one : met) {
      if (!one.is_updated) {
        whole.push_back(one);
        continue;
      }
      open.push_back(one);
      bytes += bytes_of(one);
      if (bytes < bucket_bytes_) continue;
      buckets.push_back(std::move(open));
      open.clear();
      bytes = 0;
    }
    whole.insert(whole.end(), open.begin(), open.end());
    return buckets;
  }

  /// What is made of a sum element by element is there in parts where the sum is.
  void note_parts(const Node& node) {
    const bool has_parts = std::ranges::any_of(node.inputs, [&](ValueId input) {
      return in_parts_.contains(input) && maps_elements_of(graph_, node, input);
    });
    if (has_parts) in_parts_.insert(node.outputs[0]);
  }

  /// An update of which some gradients are there in parts: those of other variables first, as they
  /// were, then each variable by itself, so that it is cut as its gradient is, and what the other
  /// processes have made of the variables.
  void add_update_in_parts(const Node& update) {
    const op::UpdateLayout layout(update.signature);
    const op::UpdateLayout::Scalars<ValueId> scalars{update.inputs[layout.rate()],
                                                     update.inputs[layout.step()],
                                                     update.inputs[layout.condition()]};
    const auto update_of = [&](const std::vector<size_t>& variables) {
      Node node = update;
      node.ranges.clear();
      ValueIds gradients;
      for (size_t v : variables) {
        gradients.push_back(update.inputs[v]);
        for (size_t i = 0; i <= layout.slots_each(); ++i) {
          node.ranges.push_back(update.ranges[layout.variable(v) + i]);
        }
      }
      node.inputs = op::UpdateLayout::inputs<ValueId>(std::move(gradients), scalars);
      set_types(node);
      return node;
    };
    Node gather = call("exchange_gather", {});
    std::vector<size_t> whole;
    std::vector<Node> parts;
    for (size_t v = 0; v < layout.variables(); ++v) {
      if (!in_parts_.contains(update.inputs[v])) {
        whole.push_back(v);
        continue;
      }
      parts.push_back(update_of({v}));
      gather.ranges.push_back(update.ranges[layout.variable(v)]);
    }
    if (!whole.empty()) nodes_.push_back(update_of(whole));
    std::ranges::move(parts, std::back_inserter(nodes_));
    set_types(gather);
    nodes_.push_back(std::move(gather));
  }

  /// Lets the exchanges of all buckets begin behind their last value. What is returned has the
  /// values that are on their way as inputs.
  std::vector<MetValues> start(const std::vector<MetValues>& buckets) {
    std::vector<MetValues> started;
    size_t added = 0;
    for (const MetValues& bucket : buckets) {
      std::vector<Node> calls;
      Node starting = call("exchange_start", {{"bucket", started_++}});
      starting.inputs = summed_locally(bucket, calls);
      MetValues on_their_way = bucket;
      for (Met& met : on_their_way) {
        met.input = new_value(graph_.at(met.input).type);
        starting.outputs.push_back(met.input);
      }
      set_types(starting);
      calls.push_back(std::move(starting));
      const size_t at = bucket.back().computed + added;
      added += calls.size();
      nodes_.insert(nodes_.begin() + static_cast<ptrdiff_t>(at),
                    std::make_move_iterator(calls.begin()), std::make_move_iterator(calls.end()));
      started.push_back(std::move(on_their_way));
    }
    return started;
  }

  void finish(const MetValues& started) {
    Node finishing = call("exchange_finish", {{"bucket", finished_++}});
    for (const Met& met : started) {
      finishing.inputs.push_back(met.input);
      in_parts_.insert(met.output);
    }
    end(std::move(finishing), started);
  }

  void exchange(const MetValues& met, const char* op) {
    Node exchange = call(op, {});
    const bool adds = exchange.op().name == "exchange_sum";
    if (adds) {
      exchange.inputs = summed_locally(met, nodes_);
    } else {
      for (const Met& one : met) exchange.inputs.push_back(one.input);
    }
    end(std::move(exchange), met);
  }

  /// Adds an exchange whose results the replicas of this process then share.
  void end(Node exchange, const MetValues& met) {
    MetValues arrived = met;
    for (Met& one : arrived) {
      one.input = local_ == 1 ? one.output : new_value(graph_.at(one.output).type);
      exchange.outputs.push_back(one.input);
    }
    set_types(exchange);
    nodes_.push_back(std::move(exchange));
    if (local_ == 1) return;
    for (const MetValues& alike : by_dtype(arrived)) {
      Node spread = call("spread_local", local_attrs());
      for (const Met& one : alike) {
        spread.inputs.push_back(one.input);
        spread.outputs.push_back(one.output);
      }
      set_types(spread);
      nodes_.push_back(std::move(spread));
    }
  }

  /// The sums over the replicas of this process, by calls that are added to `calls`.
  ValueIds summed_locally(const MetValues& met, std::vector<Node>& calls) {
    ValueIds sums;
    if (local_ == 1) {
      for (const Met& one : met) sums.push_back(one.input);
      return sums;
    }
    std::map<ValueId, ValueId> sum_of;
    for (const MetValues& alike : by_dtype(met)) {
      Node sum = call("reduce_local", local_attrs());
      for (const Met& one : alike) {
        sum.inputs.push_back(one.input);
        sum.outputs.push_back(new_value(graph_.at(one.input).type));
        sum_of[one.output] = sum.outputs.back();
      }
      set_types(sum);
      calls.push_back(std::move(sum));
    }
    for (const Met& one : met) sums.push_back(sum_of.at(one.output));
    return sums;
  }

  /// One kernel sums, or copies, values of one type.
  std::vector<MetValues> by_dtype(const MetValues& met) const {
    std::map<DType, MetValues> groups;
    for (const Met& one : met) groups[graph_.at(one.output).type.dtype].push_back(one);
    std::vector<MetValues> result;
    for (auto& [dtype, values] : groups) result.push_back(std::move(values));
    return result;
  }

  static Node call(const char* op, op::Attrs attrs) {
    Node node;
    node.signature.op = &op::find_op(op);
    node.signature.attrs = std::move(attrs);
    return node;
  }

  op::Attrs local_attrs() const { return {{"replicas", int64_t{local_}}, {"early", false}}; }

  ValueId new_value(const op::TensorType& type) {
    return graph_.add_value({.source = Value::Source::node, .type = type});
  }

  void set_types(Node& node) const {
    const auto types = [&](const ValueIds& values) {
      op::TensorTypes result;
      for (ValueId value : values) result.push_back(graph_.at(value).type);
      return result;
    };
    node.signature.inputs = types(node.inputs);
    node.signature.outputs = types(node.outputs);
    node.signature.ranges = types(node.ranges);
  }

  Graph& graph_;
  const int local_;
  const size_t bucket_bytes_;
  std::vector<Node> nodes_;
  std::set<ValueId> in_parts_;  // Sums, and what they become, of which this process has a part.
  int64_t started_ = 0;         // Buckets are numbered over the whole program.
  int64_t finished_ = 0;
};

}  // namespace

void merge_collectives(Graph& graph, const Runners& runners) {
  const ExchangeDepths depths(graph);
  const SummedGradients gradients(graph, SummedGradients::WithNorms::no);
  Merger merger(graph, runners.local, runners.bucket_bytes);
  for (int depth = 0; depth <= depths.most(); ++depth) {
    std::vector<Node> collectives;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (depths.of(i) != depth) continue;
      Node& node = graph.nodes[i];
      if (is_sum(node) || is_broadcast(node)) {
        collectives.push_back(std::move(node));
      } else {
        merger.add(std::move(node));
      }
    }
    MetValues sums, broadcasts;
    for (const Node& node : collectives) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Met met{node.inputs[i], node.outputs[i], merger.computed(node.inputs[i]),
                      gradients.contains(node.outputs[i])};
        (is_sum(node) ? sums : broadcasts).push_back(met);
      }
    }
    merger.sum(std::move(sums));
    merger.broadcast(broadcasts);
  }
  graph.nodes = merger.take();
}

}  // namespace tandem::graph
