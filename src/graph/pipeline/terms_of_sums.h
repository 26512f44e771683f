/// What the values of sums over micro-batches are made of.
#pragma once

#include <map>
#include <set>

#include "graph/pipeline/pass_keys.h"
#include "graph/uses.h"

namespace tandem::graph {

/// What the values of sums are made of where stages that do not share memory have added to them:
/// the terms, which are summed apart.
class TermsOfSums {
 public:
  TermsOfSums(const Graph& graph, const CallTimes& times, const PassKeys& keys,
              const PipelineStages& stages);

  /// The terms of value `index` of a collective.
  ValueIds of(const Node& collective, size_t index) const;

  /// The call that sums to parts what the terms are of, and that is to be made of each term; null
  /// where there is none.
  const Node* summed_to_parts(const Node& collective, size_t index) const;

  /// True for an addition in the place of which terms are summed.
  bool replaces(size_t node) const { return replaced_.contains(node); }

  /// The segment that a value is computed in.
  int key_of(ValueId value) const;

 private:
  int producer_of(ValueId value) const { return times_.producers()[graph_.storage_of(value)]; }
  void split(ValueId value, ValueIds& terms);
  bool is_summed_to_parts_by_term(ValueId value) const;
  bool joins_stages(size_t node, ValueId value) const;
  bool are_apart(int a, int b) const;

  const Graph& graph_;
  const CallTimes& times_;
  const PassKeys& keys_;
  const PipelineStages& stages_;
  const Uses uses_;
  std::map<ValueId, ValueIds> terms_;
  std::map<ValueId, Node> to_parts_;
  std::set<size_t> replaced_;
};

}  // namespace tandem::graph
