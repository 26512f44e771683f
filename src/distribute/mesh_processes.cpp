// Meshes whose devices are in several processes, one in each. To a step each process is a replica;
// those along an axis of the mesh are a group of their own. Along an axis of stages it is a stage
// of a pipeline, or with an axis of weights a member of one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "cluster/join.h"
#include "collective/axis_group.h"
#include "device/task.h"
#include "distribute/agreement_word.h"
#include "distribute/mesh_axes.h"
#include "distribute/multi_worker.h"
#include "distribute/strategy_body.h"
#include "distribute/strategy_devices.h"
#include "execution/pipeline/pipeline.h"
#include "tandem/error.h"
#include "tensor/late_values.h"

namespace tandem::distribute {
namespace {

constexpr const char* kName = "ModelParallel";
/// The keys of messages along the axes.
constexpr uint32_t kModelKey = 1;
constexpr uint32_t kDataKey = 2;
constexpr uint32_t kMembersKey = 3;

/// The ranks from `first` on, each `step` from the last.
std::vector<int> ranks_from(int first, int count, int step) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

void check_mesh(const DeviceMesh& mesh, const std::string& batch_axis, const std::string& axis,
                int processes) {
  if (mesh.devices().size() != static_cast<size_t>(processes)) {
    throw InvalidArgument(
        fmt::format("ModelParallel: the mesh {} on {} processes; it has one device of each",
                    mesh.str(), processes));
  }
  const auto place = [&](const std::string& name) {
    return std::ranges::find(mesh.axis_names(), name) - mesh.axis_names().begin();
  };
  const auto check_order = [&](const std::string& first, const std::string& second) {
    const bool has_both = mesh.size(first) > 1 && mesh.size(second) > 1;
    if (!has_both || place(first) < place(second)) return;
    throw InvalidArgument(
        fmt::format("ModelParallel: the mesh {} over processes; the axis '{}' comes before '{}'",
                    mesh.str(), first, second));
  };
  check_order(batch_axis, kStageAxis);
  if (!axis.empty()) {
    check_order(batch_axis, axis);
    check_order(kStageAxis, axis);
  }
}

/// This process's device of a mesh, by its name without the task.
devices::DevicePtr own_device(const DeviceMesh& mesh, int rank) {
  const DeviceSpec named = DeviceSpec::parse(mesh.devices()[static_cast<size_t>(rank)]);
  DeviceSpec here;
  here.type = named.type;
  here.index = named.index;
  return here.type ? devices::find_device(here) : devices_for(kName, {})[0];
}

/// All processes want the same mesh and layouts, and the same pipelines.
void check_same(const LayoutMap& layouts, const ModelParallelOptions& options, op::Group& group) {
  const DeviceMesh& mesh = layouts.device_mesh();
  std::string own = fmt::format("mesh {} of {}\n", mesh.str(), fmt::join(mesh.devices(), ", "));
  if (is_pipeline(mesh, options)) own += stage_options(options).str() + "\n";
  own += fmt::format("Shard {}\n", static_cast<int>(options.shard));
  for (const auto& [key, layout] : layouts.items()) {
    own += fmt::format("'{}' is {}\n", key, layout.str());
  }
  const std::string difference = first_difference(group.gather_texts("joining", own), group);
  if (!difference.empty()) throw InvalidArgument(fmt::format("ModelParallel: {}", difference));
}

/// The processes that have the same rows as this one, each with its parts of the weights.
std::shared_ptr<op::Group> along_model(const std::shared_ptr<op::Group>& group, int model) {
  return std::make_shared<collective::AxisGroup>(
      group, ranks_from(group->rank() / model * model, model, 1), kModelKey);
}

graph::Replicas replicas_without_stages(const std::shared_ptr<op::Group>& group,
                                        const DeviceMesh& mesh, int model) {
  const int rank = group->rank();
  graph::Replicas replicas{.devices = {own_device(mesh, rank)},
                           .owner = next_owner(),
                           .group = group,
                           .first = rank,
                           .in_all_processes = group->size(),
                           .model = model};
  if (model > 1) {
    replicas.along_model = along_model(group, model);
    replicas.along_data = std::make_shared<collective::AxisGroup>(
        group, ranks_from(rank % model, group->size() / model, model), kDataKey);
  }
  return replicas;
}

/// One pipeline, whose stages' processes run each pass together: along the data axis each has rows
/// of its own, and all keep parts of the state.
graph::PipelineStages stages_with_parts(const std::shared_ptr<op::Group>& group,
                                        const DeviceMesh& mesh, int data, int model) {
  const int stages = mesh.size(kStageAxis);
  const int in_row = stages * model;
  const int rank = group->rank();
  const int row = rank / in_row * in_row;
  graph::PipelineStages places;
  places.devices.assign(static_cast<size_t>(stages), own_device(mesh, rank));
  places.data = data;
  places.member_processes = data * model;
  places.own_process = rank;
  places.own_member = rank / in_row * model + rank % model;
  places.processes.push_back(ranks_from(row + rank % model, stages, model));
  places.all_processes = places.processes[0];
  places.along_members =
      std::make_shared<collective::AxisGroup>(group, places.with_members(rank), kMembersKey);
  if (model > 1) {
    places.along_model = along_model(group, model);
    places.along_data = std::make_shared<collective::AxisGroup>(
        group, ranks_from(rank % in_row, data, in_row), kDataKey);
  }
  places.homes = std::make_shared<graph::VariableHomes>();
  return places;
}

/// A pipeline for each part of the batch. Every process has all rows; it runs one stage of one
/// pipeline, with its parts of the weights, and hands tensors to the process that has the same
/// parts at the next stage.
graph::PipelineStages stages_of(const std::shared_ptr<op::Group>& group, const DeviceMesh& mesh,
                                const ModelParallelOptions& options, int model) {
  const int stages = mesh.size(kStageAxis);
  const int pipelines = mesh.size(options.batch_dim_name);
  if (options.shard != Shard::nothing) return stages_with_parts(group, mesh, pipelines, model);
  const devices::DevicePtr device = own_device(mesh, group->rank());
  graph::PipelineStages places;
  places.devices.assign(static_cast<size_t>(stages), device);
  places.beside.assign(static_cast<size_t>(pipelines) - 1, places.devices);
  places.own_process = group->rank();
  places.own_member = group->rank() % model;
  places.member_processes = model;
  if (model > 1) places.along_model = places.along_members = along_model(group, model);
  for (int p = 0; p < pipelines; ++p) {
    places.processes.push_back(ranks_from(p * stages * model + places.own_member, stages, model));
  }
  places.all_processes = ranks_from(places.own_member, group->size() / model, model);
  places.homes = std::make_shared<graph::VariableHomes>();
  return places;
}

graph::Replicas staged_replicas(const graph::PipelineStages& stages, StageOptions options,
                                int microbatches) {
  options.microbatches = microbatches;
  graph::Pipeline pipeline = make_pipeline(kName, options, stages);
  const auto replicas =
      static_cast<size_t>(microbatches * stages.pipelines() * stages.members_in_all());
  return {.devices = std::vector(replicas, stages.devices[0]),
          .owner = next_owner(),
          .model = stages.model(),
          .pipeline = std::make_shared<graph::Pipeline>(std::move(pipeline))};
}

/// The body of the strategy, whose processes are replicas or the stages of pipelines.
std::shared_ptr<Strategy::Body> body_with(const std::shared_ptr<op::Group>& group,
                                          const DeviceMesh& mesh,
                                          const ModelParallelOptions& options, int model) {
  const auto agreement = std::make_shared<graph::Agreement>(AgreementWord(group->size()).numbers());
  const auto meeting = [=, bucket_bytes =
                               options.communication.bucket_bytes](graph::Replicas replicas) {
    replicas.group = group;
    // What a GPU sums goes through the host's memory as a whole, and it updates all.
    const bool is_cpu = replicas.devices[0]->works_on_threads();
    replicas.bucket_bytes =
        is_cpu ? static_cast<size_t>(bucket_bytes) : std::numeric_limits<size_t>::max();
    replicas.agreement = agreement;
    return replicas;
  };
  if (!is_pipeline(mesh, options)) {
    return std::make_shared<Strategy::Body>(kName,
                                            meeting(replicas_without_stages(group, mesh, model)));
  }
  const graph::PipelineStages places = stages_of(group, mesh, options, model);
  const StageOptions stages = stage_options(options);
  return pipeline_body(kName, stages, mesh.size(kStageAxis), [=](int microbatches) {
    return meeting(staged_replicas(places, stages, microbatches));
  });
}

std::shared_ptr<const Strategy::Body> body_of(const std::shared_ptr<op::Group>& group,
                                              const LayoutMap& layouts,
                                              const ModelParallelOptions& options) {
  const DeviceMesh& mesh = layouts.device_mesh();
  check_not_drawn(kName);
  check_layouts(layouts, options.batch_dim_name);
  check_options(mesh, options);
  const std::string axis = model_axis(mesh, options.batch_dim_name);
  check_mesh(mesh, options.batch_dim_name, axis, group->size());
  check_same(layouts, options, *group);
  const int model = axis.empty() ? 1 : mesh.size(axis);
  auto body = body_with(group, mesh, options, model);
  body->workers()->take_random_state();
  const auto shared = std::make_shared<const LayoutMap>(layouts);
  body->set_layouts(shared);
  ReplicaSpan holders{.first = group->rank(), .all = group->size(), .model = model};
  if (const auto& pipeline = body->targets().pipeline) {
    holders.first = pipeline->stages.own_member;
    holders.all = pipeline->stages.members_in_all();
  }
  body->set_sharding(sharding_by(shared, options.shard, holders));
  if (is_pipeline(mesh, options) && options.shard == Shard::nothing) {
    note_late_values(body->store());
  }
  return body;
}

}  // namespace

bool is_over_processes(const DeviceMesh& mesh) {
  std::set<std::string> tasks;
  for (const std::string& name : mesh.devices()) {
    const DeviceSpec spec = DeviceSpec::parse(name);
    tasks.insert(fmt::format("{} {}", spec.job.value_or(""), spec.task.value_or(-1)));
  }
  return tasks.size() > 1;
}

std::vector<std::string> devices_of_tasks(size_t count) {
  const std::optional<cluster::Cluster> cluster = cluster::cluster_from_environment();
  std::vector<std::string> names;
  if (!cluster || cluster->size < 2 || static_cast<size_t>(cluster->size) != count) return names;
  for (int rank = 0; rank < cluster->size; ++rank) {
    names.push_back(fmt::format("/job:{}/task:{}", cluster->job, rank));
  }
  return names;
}

ModelParallel model_parallel_over(const std::shared_ptr<op::Group>& group,
                                  const LayoutMap& layout_map,
                                  const ModelParallelOptions& options) {
  try {
    return ModelParallel(body_of(group, layout_map, options));
  } catch (...) {
    WorkerGroup(group, nullptr).abort_with_current_error();
    throw;
  }
}

ModelParallel model_parallel_over_processes(const LayoutMap& layout_map,
                                            const ModelParallelOptions& options) {
  MultiWorkerOptions joining;
  joining.communication = options.communication;
  joining.cluster_resolver = options.cluster_resolver;
  const std::shared_ptr<op::Group> group = join_group(joining);
  if (group) return model_parallel_over(group, layout_map, options);
  throw InvalidArgument(fmt::format(
      "ModelParallel: the mesh {} has devices of several tasks ({}), and nothing says "
      "which processes there are; see docs/cluster.md",
      layout_map.device_mesh().str(), fmt::join(layout_map.device_mesh().devices(), ", ")));
}

}  // namespace tandem::distribute
