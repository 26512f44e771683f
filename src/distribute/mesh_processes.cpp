// Meshes whose devices are in several processes, one in each. To a step each process is a replica;
// those along an axis of the mesh are a group of their own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "cluster/join.h"
#include "collective/axis_group.h"
#include "device/task.h"
#include "distribute/agreement_word.h"
#include "distribute/mesh_axes.h"
#include "distribute/multi_worker.h"
#include "distribute/strategy_body.h"
#include "distribute/strategy_devices.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

constexpr const char* kName = "ModelParallel";
/// The keys of messages along the axes.
constexpr uint32_t kModelKey = 1;
constexpr uint32_t kDataKey = 2;

/// The ranks from `first` on, each `step` from the last.
std::vector<int> ranks_from(int first, int count, int step) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

void check_mesh(const DeviceMesh& mesh, const std::string& batch_axis, const std::string& axis,
                int processes) {
  if (mesh.size(kStageAxis) > 1) {
    throw Unimplemented(
        fmt::format("ModelParallel: the mesh {} over processes; stages over processes are those of "
                    "PipelineStrategy",
                    mesh.str()));
  }
  if (mesh.devices().size() != static_cast<size_t>(processes)) {
    throw InvalidArgument(
        fmt::format("ModelParallel: the mesh {} on {} processes; it has one device of each",
                    mesh.str(), processes));
  }
  const auto place = [&](const std::string& name) {
    return std::ranges::find(mesh.axis_names(), name) - mesh.axis_names().begin();
  };
  const bool has_both = !axis.empty() && mesh.size(batch_axis) > 1;
  if (has_both && place(axis) < place(batch_axis)) {
    throw InvalidArgument(fmt::format(
        "ModelParallel: the mesh {} over processes; the axis of the batch, '{}', comes first",
        mesh.str(), batch_axis));
  }
}

/// This process's device of a mesh, by its name without the task.
devices::DevicePtr own_device(const DeviceMesh& mesh, int rank) {
  const DeviceSpec named = DeviceSpec::parse(mesh.devices()[static_cast<size_t>(rank)]);
  DeviceSpec here;
  here.type = named.type;
  here.index = named.index;
  const devices::DevicePtr device =
      here.type ? devices::find_device(here) : devices_for(kName, {})[0];
  if (device->works_on_threads()) return device;
  throw Unimplemented(
      fmt::format("ModelParallel: {} in a mesh over processes; CPUs are accepted", device->name()));
}

/// All processes want the same mesh and layouts.
void check_same(const LayoutMap& layouts, op::Group& group) {
  const DeviceMesh& mesh = layouts.device_mesh();
  std::string own = fmt::format("mesh {} of {}\n", mesh.str(), fmt::join(mesh.devices(), ", "));
  for (const auto& [key, layout] : layouts.items()) {
    own += fmt::format("'{}' is {}\n", key, layout.str());
  }
  const std::string difference = first_difference(group.gather_texts("joining", own), group);
  if (!difference.empty()) throw InvalidArgument(fmt::format("ModelParallel: {}", difference));
}

std::shared_ptr<const Strategy::Body> body_of(const std::shared_ptr<op::Group>& group,
                                              const LayoutMap& layouts,
                                              const ModelParallelOptions& options) {
  const DeviceMesh& mesh = layouts.device_mesh();
  check_not_drawn(kName);
  check_layouts(layouts, options.batch_dim_name);
  const std::string axis = model_axis(mesh, options.batch_dim_name);
  check_mesh(mesh, options.batch_dim_name, axis, group->size());
  check_same(layouts, *group);
  const int model = axis.empty() ? 1 : mesh.size(axis);
  const int rank = group->rank();
  graph::Replicas replicas{.devices = {own_device(mesh, rank)},
                           .owner = next_owner(),
                           .group = group,
                           .first = rank,
                           .in_all_processes = group->size(),
                           .model = model};
  if (model > 1) {
    replicas.along_model = std::make_shared<collective::AxisGroup>(
        group, ranks_from(rank / model * model, model, 1), kModelKey);
    replicas.along_data = std::make_shared<collective::AxisGroup>(
        group, ranks_from(rank % model, group->size() / model, model), kDataKey);
  }
  replicas.bucket_bytes = static_cast<size_t>(options.communication.bucket_bytes);
  replicas.agreement = std::make_shared<graph::Agreement>(AgreementWord(group->size()).numbers());
  auto body = std::make_shared<Strategy::Body>(kName, std::move(replicas));
  body->workers()->take_random_state();
  const auto shared = std::make_shared<const LayoutMap>(layouts);
  body->set_layouts(shared);
  if (model > 1) body->store()->set_sharding(sharding_by(shared, model, rank % model));
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
