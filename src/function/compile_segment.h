/// From graphs to programs that are bound to devices.
#pragma once

#include <vector>

#include "execution/compiled_segment.h"
#include "graph/passes/passes.h"

namespace tandem::graph {

/// Throws NotFound where a device has no kernel for a call.
CompiledSegment compile_segment(Graph graph, ReplicasPtr replicas, Executions::Calls calls);

/// Each segment on its device.
std::vector<CompiledSegment> compile_segments(std::vector<Segment> segments,
                                              Executions::Calls calls);

}  // namespace tandem::graph
