/// Branches and loops inside a program. A node of control flow carries regions, graphs of their own
/// over the node's inputs; to the passes around it, it is one call with inputs and outputs.
///
///   cond        inputs: predicate, captured..          regions: then, otherwise
///   while_loop  inputs: variables.., captured..        regions: condition, body
///   while_loop_gradient    variables.., gradients.., captured..    condition, body, backward
#pragma once

#include "graph/graph.h"
#include "op/kernel.h"

namespace tandem::graph {

/// The node as something that threads run: all of them run the same region's instructions. `parts`
/// threads share it; `signature` is the node's for `rows` rows.
op::ExecutablePtr prepare_control_flow(const Node& node, const op::Signature& signature,
                                       int64_t rows, const devices::DevicePtr& device, int parts);

/// The most iterations of a while_loop, or of the one whose gradient it is.
int64_t maximum_iterations(const op::Signature& signature);

}  // namespace tandem::graph
