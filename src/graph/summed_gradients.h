/// Sums of gradients of which a process needs no more than its own part: updates use them, as they
/// are or after functions of single elements, and norms.
#pragma once

#include "graph/graph.h"
#include "graph/uses.h"

namespace tandem::graph {

class SummedGradients {
 public:
  enum class WithNorms {
    no,   ///< Norms are taken of parts already, or there are none.
    yes,  ///< Sums of squares are to be taken of parts.
  };
  SummedGradients(const Graph& graph, WithNorms with_norms);

  bool contains(ValueId value) const { return is_gradient_[value]; }

 private:
  bool is_used_in_parts(ValueId value) const;
  bool is_update_of(const Node& node, ValueId value) const;
  bool is_norm_of(const Node& node) const;

  const Graph& graph_;
  const Uses uses_;
  const WithNorms with_norms_;
  ValueMap<bool> is_gradient_;
};

/// True for a call that computes each element of `value`'s type from `value`'s element at the same
/// place and from scalars.
bool maps_elements_of(const Graph& graph, const Node& node, ValueId value);

/// True for reduce_sum over all elements.
bool is_whole_sum(const Node& node);

}  // namespace tandem::graph
