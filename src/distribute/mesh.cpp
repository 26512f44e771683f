#include "tandem/distribute/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <regex>
#include <set>

#include "distribute/mesh_axes.h"
#include "distribute/pipeline_strategy.h"
#include "distribute/strategy_body.h"
#include "distribute/strategy_devices.h"
#include "execution/pipeline/pipeline.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

using devices::DevicePtr;

std::vector<std::string> first_devices(size_t count) {
  std::vector<std::string> names = devices_of_tasks(count);
  if (!names.empty()) return names;
  const std::vector<DevicePtr> all = devices_for("DeviceMesh", {});
  if (all.size() < count) {
    throw InvalidArgument(
        fmt::format("DeviceMesh: it is of {} devices, there are {}; config::set_logical_cpus makes "
                    "more of the CPU",
                    count, all.size()));
  }
  for (size_t i = 0; i < count; ++i) names.push_back(all[i]->name());
  return names;
}

}  // namespace

std::string model_axis(const DeviceMesh& mesh, const std::string& batch_axis) {
  if (batch_axis == kStageAxis) {
    throw InvalidArgument(fmt::format(
        "ModelParallel: batch_dim_name is '{}', the axis along which layers are cut; another axis "
        "of the mesh {} is accepted",
        kStageAxis, mesh.str()));
  }
  std::string found;
  for (const std::string& axis : mesh.axis_names()) {
    if (axis == batch_axis || axis == kStageAxis || mesh.size(axis) == 1) continue;
    if (!found.empty()) {
      throw Unimplemented(fmt::format(
          "ModelParallel: the mesh {} has the axes '{}' and '{}' beside the batch's, '{}'; one is "
          "accepted",
          mesh.str(), found, axis, batch_axis));
    }
    found = axis;
  }
  return found;
}

bool is_pipeline(const DeviceMesh& mesh, const ModelParallelOptions& options) {
  return mesh.size(kStageAxis) > 1 || stage_options(options).has_automatic_microbatches();
}

StageOptions stage_options(const ModelParallelOptions& options) {
  return {.microbatches = options.microbatches,
          .schedule = options.schedule,
          .chunks = options.chunks,
          .layers = options.layers};
}

void check_options(const DeviceMesh& mesh, const ModelParallelOptions& options) {
  graph::pipeline_kind(options.schedule);  // Throws for another name.
  if (mesh.size(kStageAxis) > 1 || (options.chunks == 1 && options.layers.empty())) return;
  throw InvalidArgument(fmt::format(
      "ModelParallel: {} with the mesh {}; they are accepted where it has an axis "
      "'stage' of several devices",
      options.chunks == 1 ? "lists of layers" : fmt::format("{} chunks in a stage", options.chunks),
      mesh.str()));
}

void check_layouts(const LayoutMap& layouts, const std::string& batch_axis) {
  const DeviceMesh& mesh = layouts.device_mesh();
  for (const auto& [key, layout] : layouts.items()) {
    for (const std::string& axis : layout.axes()) {
      const bool is_special = axis == batch_axis || axis == kStageAxis;
      if (axis.empty() || (!is_special && mesh.has_axis(axis))) continue;
      throw InvalidArgument(fmt::format(
          "ModelParallel: '{}' is {}; the axes of the mesh but those of the batch and the stages "
          "are accepted: {}",
          key, layout.str(), mesh.str()));
    }
    const auto cuts = std::ranges::count_if(layout.axes(), std::not_fn(&std::string::empty));
    if (cuts > 1) {
      throw InvalidArgument(
          fmt::format("ModelParallel: '{}' is {}; one axis can be cut", key, layout.str()));
    }
  }
}

Store::ShardingRule sharding_by(const std::shared_ptr<const LayoutMap>& layouts, Shard shard,
                                const ReplicaSpan& span) {
  Store::ShardingRule others = [](const std::string&, const Shape&) { return Sharding(); };
  if (shard != Shard::nothing && span.all > 1) others = sharding_by(shard, span.all, span.first);
  return [=](const std::string& name, const Shape& shape) -> Sharding {
    const int parts = span.model;
    const int axis = parts == 1 ? -1 : layouts->cut_axis(name);
    const bool is_cut =
        axis >= 0 && shape.rank() > 1 && axis < shape.rank() && shape.extent(axis) % parts == 0;
    if (!is_cut) return others(name, shape);
    return {.value = {.parts = parts, .axis = axis, .first = span.first % parts}};
  };
}

namespace {

/// The mesh's devices with those of one part of the batch side by side.
std::vector<DevicePtr> by_shard(const DeviceMesh& mesh, const std::string& batch_axis) {
  const std::vector<DevicePtr> listed = devices_for("ModelParallel", mesh.devices());
  const auto& names = mesh.axis_names();
  const auto axis = static_cast<size_t>(std::ranges::find(names, batch_axis) - names.begin());
  if (axis == names.size()) return listed;
  size_t inner = 1;  // The devices from one place on the batch's axis to the next.
  for (size_t i = axis + 1; i < names.size(); ++i) inner *= static_cast<size_t>(mesh.shape()[i]);
  const auto shards = static_cast<size_t>(mesh.shape()[axis]);
  std::vector<DevicePtr> ordered;
  for (size_t shard = 0; shard < shards; ++shard) {
    for (size_t i = 0; i < listed.size(); ++i) {
      if (i / inner % shards == shard) ordered.push_back(listed[i]);
    }
  }
  return ordered;
}

void check_threads(const std::vector<DevicePtr>& devices) {
  for (const DevicePtr& device : devices) {
    if (device->threads() != devices[0]->threads()) {
      throw InvalidArgument(fmt::format(
          "ModelParallel: {} has {} threads and {} has {}; devices of a mesh have as many each",
          devices[0]->name(), devices[0]->threads(), device->name(), device->threads()));
    }
  }
}

/// Devices by their places on the axes of the batch, of the stages and of the weights.
using DevicesByPlace = std::vector<std::vector<std::vector<DevicePtr>>>;

DevicesByPlace by_place(const DeviceMesh& mesh, const std::string& batch_axis,
                        const std::string& model_axis) {
  const std::vector<DevicePtr> listed = devices_for("ModelParallel", mesh.devices());
  const auto sized = [&](const std::string& axis) { return static_cast<size_t>(mesh.size(axis)); };
  DevicesByPlace all(sized(batch_axis),
                     std::vector(sized(kStageAxis), std::vector<DevicePtr>(sized(model_axis))));
  for (size_t i = 0; i < listed.size(); ++i) {
    std::map<std::string, size_t> place;
    size_t rest = i;
    for (size_t axis = mesh.shape().size(); axis-- > 0;) {
      const auto size = static_cast<size_t>(mesh.shape()[axis]);
      place[mesh.axis_names()[axis]] = rest % size;
      rest /= size;
    }
    all[place[batch_axis]][place[kStageAxis]][place[model_axis]] = listed[i];
  }
  return all;
}

/// One pipeline for all parts of the batch, whose stages' devices run each pass together: they keep
/// parts of the state.
graph::PipelineStages stages_with_parts(const DevicesByPlace& devices) {
  graph::PipelineStages all;
  all.data = static_cast<int>(devices.size());
  all.members.emplace_back(devices[0].size());
  for (const auto& by_stage : devices) {
    for (size_t stage = 0; stage < by_stage.size(); ++stage) {
      std::vector<DevicePtr>& members = all.members[0][stage];
      members.insert(members.end(), by_stage[stage].begin(), by_stage[stage].end());
    }
  }
  for (const auto& members : all.members[0]) all.devices.push_back(members[0]);
  return all;
}

/// The pipelines of a mesh with stages: one for each part of the batch, whose stages are several
/// devices each.
graph::PipelineStages stages_of(const DevicesByPlace& devices, Shard shard) {
  if (shard != Shard::nothing) return stages_with_parts(devices);
  graph::PipelineStages all;
  for (const auto& stages : devices) {
    std::vector<DevicePtr> first;
    for (const auto& members : stages) first.push_back(members[0]);
    all.members.push_back(stages);
    (all.devices.empty() ? all.devices : all.beside.emplace_back()) = first;
  }
  return all;
}

graph::Replicas staged_replicas(const DevicesByPlace& devices, StageOptions options, Shard shard,
                                int microbatches) {
  options.microbatches = microbatches;
  graph::Pipeline pipeline = make_pipeline("ModelParallel", options, stages_of(devices, shard));
  // Variables are those of the first pipeline's devices.
  const std::vector<DevicePtr>& members = pipeline.stages.members[0][0];
  graph::Replicas replicas{.owner = next_owner(), .model = pipeline.stages.model()};
  for (int i = 0; i < microbatches * pipeline.stages.pipelines(); ++i) {
    replicas.devices.insert(replicas.devices.end(), members.begin(), members.end());
  }
  replicas.pipeline = std::make_shared<graph::Pipeline>(std::move(pipeline));
  return replicas;
}

std::shared_ptr<Strategy::Body> staged_body(const DeviceMesh& mesh,
                                            const ModelParallelOptions& options,
                                            const std::string& model_axis) {
  const std::vector<DevicePtr> listed = devices_for("ModelParallel", mesh.devices());
  check_threads(listed);
  const DevicesByPlace devices = by_place(mesh, options.batch_dim_name, model_axis);
  const StageOptions stages = stage_options(options);
  const Shard shard = options.shard;
  return pipeline_body("ModelParallel", stages, mesh.size(kStageAxis), [=](int microbatches) {
    return staged_replicas(devices, stages, shard, microbatches);
  });
}

std::shared_ptr<Strategy::Body> unstaged_body(const DeviceMesh& mesh,
                                              const ModelParallelOptions& options,
                                              const std::string& model_axis) {
  graph::Replicas replicas{.devices = by_shard(mesh, options.batch_dim_name),
                           .owner = next_owner()};
  replicas.model = model_axis.empty() ? 1 : mesh.size(model_axis);
  check_threads(replicas.devices);
  return std::make_shared<Strategy::Body>("ModelParallel", std::move(replicas));
}

std::shared_ptr<const Strategy::Body> model_parallel(const LayoutMap& layouts,
                                                     const ModelParallelOptions& options) {
  const DeviceMesh& mesh = layouts.device_mesh();
  check_layouts(layouts, options.batch_dim_name);
  check_options(mesh, options);
  const std::string axis = model_axis(mesh, options.batch_dim_name);
  auto body = is_pipeline(mesh, options) ? staged_body(mesh, options, axis)
                                         : unstaged_body(mesh, options, axis);
  const auto shared = std::make_shared<const LayoutMap>(layouts);
  body->set_layouts(shared);
  // In a pipeline the devices of a stage have parts, in whichever micro-batch they are replicas.
  ReplicaSpan holders = body->span();
  if (is_pipeline(mesh, options)) holders.all = body->targets().pipeline->stages.members_in_all();
  body->set_sharding(sharding_by(shared, options.shard, holders));
  return body;
}

const std::vector<std::string>& devices_along(const DeviceMesh& mesh) {
  if (mesh.shape().size() == 1) return mesh.devices();
  throw InvalidArgument(
      fmt::format("DataParallel: a mesh of one axis is accepted, this one is {}", mesh.str()));
}

Strategy data_parallel(const DeviceMesh& mesh) {
  const std::vector<std::string>& devices = devices_along(mesh);
  if (is_over_processes(mesh)) return MultiWorkerMirroredStrategy();
  return MirroredStrategy(devices);
}

}  // namespace

DeviceMesh::DeviceMesh(const std::vector<int>& shape, const std::vector<std::string>& axis_names,
                       const std::vector<std::string>& devices)
    : shape_(shape), axis_names_(axis_names) {
  if (shape.empty() || shape.size() != axis_names.size()) {
    throw InvalidArgument(
        fmt::format("DeviceMesh: {} sizes and {} names of axes", shape.size(), axis_names.size()));
  }
  if (const auto small = std::ranges::find_if(shape, [](int size) { return size < 1; });
      small != shape.end()) {
    throw InvalidArgument(
        fmt::format("DeviceMesh: an axis of size {}, at least 1 is accepted", *small));
  }
  const std::set<std::string> each(axis_names.begin(), axis_names.end());
  if (each.size() < axis_names.size() || each.contains("")) {
    throw InvalidArgument(
        fmt::format("DeviceMesh: the names of its axes are '{}'; each has one "
                    "of its own",
                    fmt::join(axis_names, "', '")));
  }
  const auto count =
      static_cast<size_t>(std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>()));
  devices_ = devices.empty() ? first_devices(count) : devices;
  if (devices_.size() != count) {
    throw InvalidArgument(fmt::format("DeviceMesh: {} devices are given for {}, which has {}",
                                      devices_.size(), str(), count));
  }
}

bool DeviceMesh::has_axis(const std::string& name) const {
  return std::ranges::find(axis_names_, name) != axis_names_.end();
}

int DeviceMesh::size(const std::string& name) const {
  const auto found = std::ranges::find(axis_names_, name);
  return found == axis_names_.end() ? 1 : shape_[static_cast<size_t>(found - axis_names_.begin())];
}

std::string DeviceMesh::str() const {
  std::string text;
  for (size_t i = 0; i < shape_.size(); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : " x ", axis_names_[i], shape_[i]);
  }
  return text;
}

std::string TensorLayout::str() const {
  std::string text;
  for (const std::string& axis : axes_) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", axis.empty() ? "-" : axis);
  }
  return fmt::format("({})", text);
}

TensorLayout& LayoutMap::operator[](const std::string& key) {
  const auto known = std::ranges::find(items_, key, [](const auto& item) { return item.first; });
  if (known != items_.end()) return known->second;
  return items_.emplace_back(key, TensorLayout()).second;
}

const TensorLayout* LayoutMap::find(const std::string& path) const {
  const std::pair<std::string, TensorLayout>* found = nullptr;
  for (const auto& item : items_) {
    if (item.first == path) return &item.second;
  }
  for (const auto& item : items_) {
    try {
      if (!std::regex_search(path, std::regex(item.first))) continue;
    } catch (const std::regex_error& error) {
      throw InvalidArgument(
          fmt::format("LayoutMap: '{}' is no regular expression: {}", item.first, error.what()));
    }
    if (found != nullptr) {
      throw InvalidArgument(fmt::format("LayoutMap: '{}' and '{}' are both found in '{}'",
                                        found->first, item.first, path));
    }
    found = &item;
  }
  return found == nullptr ? nullptr : &found->second;
}

int LayoutMap::cut_axis(const std::string& path) const {
  const TensorLayout* layout = find(path);
  if (layout == nullptr) return -1;
  const auto named = std::ranges::find_if(layout->axes(), std::not_fn(&std::string::empty));
  return named == layout->axes().end() ? -1 : static_cast<int>(named - layout->axes().begin());
}

DataParallel::DataParallel(const std::vector<std::string>& devices)
    : Strategy(MirroredStrategy(devices)) {}

DataParallel::DataParallel(const DeviceMesh& device_mesh) : Strategy(data_parallel(device_mesh)) {}

ModelParallel::ModelParallel(const LayoutMap& layout_map, const ModelParallelOptions& options)
    : Strategy(is_over_processes(layout_map.device_mesh())
                   ? Strategy(model_parallel_over_processes(layout_map, options))
                   : Strategy(model_parallel(layout_map, options))) {}

}  // namespace tandem::distribute
