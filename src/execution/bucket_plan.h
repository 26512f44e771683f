/// Gradients that are summed while the backward pass goes on: in buckets, each as soon as its last
/// gradient is there.
#pragma once

#include "execution/cross_device_plan.h"
#include "graph/uses.h"

namespace tandem::graph {

/// Takes operands out of `sum`, the next superstep of `plan`, and puts sums of them, in buckets,
/// among the early supersteps of the plan. Teams of CPUs have no queue on which these could be
/// made.
void take_buckets(Sum& sum, const Program& program, const Uses& uses, CrossDevicePlan& plan);

}  // namespace tandem::graph
