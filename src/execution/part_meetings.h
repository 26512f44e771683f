/// How replicas meet that have parts of a value, or of a mesh's weights: which elements go where,
/// and who sums what. Each is of one instruction of the program.
#pragma once

#include <vector>

#include "execution/cross_device_plan.h"

namespace tandem::graph {

/// join_parts, join_start: each replica's part goes to its place with all that have parts of the
/// same whole.
std::vector<Move> moves_of_join(const CrossDevicePlan& plan, const Graph& graph, const Node& join);

/// sum_to_part: each replica's part is summed where that replica is.
Sum sum_to_parts(const CrossDevicePlan& plan, const Program& program, size_t instruction);

/// sum_over_model: neighbours with the same rows meet.
Sum sum_over_model(const Program& program, size_t instruction);

/// sum_over_holders: replicas that have the same part meet.
Sum sum_over_holders(const CrossDevicePlan& plan, const Program& program, size_t instruction);

}  // namespace tandem::graph
