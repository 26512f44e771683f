#include "graph/pipeline/terms_of_sums.h"

#include <algorithm>

namespace tandem::graph {

TermsOfSums::TermsOfSums(const Graph& graph, const CallTimes& times, const PassKeys& keys,
                         const PipelineStages& stages)
    : graph_(graph), times_(times), keys_(keys), stages_(stages), uses_(graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (is_broadcast(graph.nodes[i]) || !times.is_collective(i)) continue;
    for (ValueId input : graph.nodes[i].inputs) {
      ValueId value = input;
      if (is_summed_to_parts_by_term(input)) {
        const auto sum = static_cast<size_t>(producer_of(input));
        to_parts_.emplace(input, graph.nodes[sum]);
        replaced_.insert(sum);
        value = graph.nodes[sum].inputs[0];
      }
      split(value, terms_[input]);
    }
  }
}

const Node* TermsOfSums::summed_to_parts(const Node& collective, size_t index) const {
  const auto known = to_parts_.find(collective.inputs[index]);
  return known == to_parts_.end() ? nullptr : &known->second;
}

/// True for a sum to parts that nobody else uses, and that waits until all micro-batches are
/// summed, or is of values that stages apart have added up.
bool TermsOfSums::is_summed_to_parts_by_term(ValueId value) const {
  const int producer = producer_of(value);
  if (producer < 0 || uses_.of(value).size() != 1) return false;
  const Node& sum = graph_.nodes[static_cast<size_t>(producer)];
  if (sum.op().name != "sum_to_part") return false;
  if (sum.signature.attrs.get<bool>("waits")) return true;
  const int of = producer_of(sum.inputs[0]);
  return of >= 0 && joins_stages(static_cast<size_t>(of), sum.inputs[0]);
}

ValueIds TermsOfSums::of(const Node& collective, size_t index) const {
  const auto known = terms_.find(collective.inputs[index]);
  return known == terms_.end() ? ValueIds{collective.inputs[index]} : known->second;
}

int TermsOfSums::key_of(ValueId value) const {
  const int producer = producer_of(value);
  return producer < 0 ? 0 : std::max(keys_.of(static_cast<size_t>(producer)), 0);
}

void TermsOfSums::split(ValueId value, ValueIds& terms) {
  const int producer = producer_of(value);
  if (producer >= 0 && joins_stages(static_cast<size_t>(producer), value)) {
    replaced_.insert(static_cast<size_t>(producer));
    for (ValueId input : graph_.nodes[static_cast<size_t>(producer)].inputs) split(input, terms);
  } else {
    terms.push_back(value);
  }
}

/// True for an addition that nobody else uses, of values of stages apart.
bool TermsOfSums::joins_stages(size_t node, ValueId value) const {
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

bool TermsOfSums::are_apart(int a, int b) const {
  return stages_.process_of(keys_.chunk_of(a), 0) != stages_.process_of(keys_.chunk_of(b), 0) ||
         &keys_.device_of(a)->space() != &keys_.device_of(b)->space();
}

}  // namespace tandem::graph
