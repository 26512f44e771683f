/// Exchanges between processes of values of which each replica has a part.
#pragma once

#include "graph/program.h"

namespace tandem::graph {

/// True for an exchange that joins parts, or that sums values to parts.
bool is_part_exchange(const Node& node);

/// `node` is such an exchange of the program, and `name` what errors call it.
op::ExecutablePtr prepare_part_exchange(const Program& program, const Node& node, std::string name);

}  // namespace tandem::graph
