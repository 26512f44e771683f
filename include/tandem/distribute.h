/// Strategies: how one program runs on several devices. A strategy says where variables live, how a
/// batch is split and how the replicas' values meet; the program itself does not change.
///
///   distribute::MirroredStrategy strategy({"/CPU:0", "/CPU:1"});
///   auto scope = strategy.scope();  // Models, variables and optimizers made here are mirrored.
///   ...
///   for (const auto& batch : strategy.distribute_dataset(batches)) {
///     PerReplica loss = strategy.run(step, batch);
///     Tensor mean = strategy.reduce(ReduceOp::sum, loss);
///   }
///
/// A strategy may be used by several threads; runs of one function take turns. Inside a scope, and
/// inside run, another strategy is FailedPrecondition, and so is a variable of another's scope.
#pragma once

#include "tandem/cross_device_reduction.h"
#include "tandem/distribute/distributed_dataset.h"
#include "tandem/distribute/distributed_profile.h"
#include "tandem/distribute/per_replica.h"
#include "tandem/distribute/replica_context.h"
#include "tandem/distribute/strategy.h"
