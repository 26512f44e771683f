/// Where a function runs, as far as nothing in it asks for a device of its own.
#pragma once

#include "device/logical_device.h"
#include "graph/graph.h"

namespace tandem::graph {

/// What the scope of a call asks for; null outside of any. Throws NotFound as placement does.
const devices::DevicePtr* asked_by_scope();

struct FunctionPlacement {
  devices::DevicePtr device;
  std::string reason;
};

/// The device for a function that the caller wants on `asked`, if that is not null: there, or with
/// soft placement on the host where an op has no kernel there. Unasked, with the first variable it
/// uses, else on the first device that has a kernel for every op.
FunctionPlacement place_function(const Graph& graph, const devices::DevicePtr* asked);

/// Throws NotFound naming the first op that has no kernel on `device`. To be asked before calls are
/// fused: what a device lacks it lacks in company too.
void check_kernels(const Graph& graph, const devices::Device& device);

}  // namespace tandem::graph
