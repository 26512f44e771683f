/// What the axes of a mesh mean to a ModelParallel, on the devices of one process or of several.
#pragma once

#include <memory>
#include <string>

#include "distribute/pipeline_strategy.h"
#include "op/group.h"
#include "tandem/distribute/mesh.h"
#include "tensor/store.h"

namespace tandem::distribute {

/// The axis of a mesh along which the layers are cut.
inline constexpr const char* kStageAxis = "stage";

/// The axis along which weights are cut; empty where the mesh has none. Throws Unimplemented where
/// there are several.
std::string model_axis(const DeviceMesh& mesh, const std::string& batch_axis);

/// True where batches go through the mesh in micro-batches.
bool is_pipeline(const DeviceMesh& mesh, const ModelParallelOptions& options);
StageOptions stage_options(const ModelParallelOptions& options);

/// Throws InvalidArgument for options that mean nothing with this mesh.
void check_options(const DeviceMesh& mesh, const ModelParallelOptions& options);

/// Throws InvalidArgument for layouts that the mesh has no axes for.
void check_layouts(const LayoutMap& layouts, const std::string& batch_axis);

/// What the replicas of `span` keep in parts, those of a stage where there are several: weights
/// that the layouts cut along their axis, over the replicas along the model's axis, and what
/// `shard` says of all others over all replicas.
Store::ShardingRule sharding_by(const std::shared_ptr<const LayoutMap>& layouts, Shard shard,
                                const ReplicaSpan& span);

/// True where the devices of a mesh are named as those of several tasks.
bool is_over_processes(const DeviceMesh& mesh);

/// The device of each task that the environment names, where there are `count` of them; else none.
std::vector<std::string> devices_of_tasks(size_t count);

/// A strategy over a mesh of one device in each process of `group`, in the order of their ranks.
/// All processes call it at the same time, as multi_worker_strategy().
ModelParallel model_parallel_over(const std::shared_ptr<op::Group>& group,
                                  const LayoutMap& layout_map,
                                  const ModelParallelOptions& options = {});

/// The same for the processes that the options' resolver or else the environment names.
ModelParallel model_parallel_over_processes(const LayoutMap& layout_map,
                                            const ModelParallelOptions& options);

}  // namespace tandem::distribute
