// Models that are cut over devices: pipelines, meshes, and the parts of weights that layers compute
// with.
#include <nanobind/stl/pair.h>

#include <utility>

#include "binding.h"
#include "tandem/keras/distribution.h"

namespace tandem::python {
namespace {

using namespace distribute;

using Layouts = std::vector<std::pair<std::string, std::vector<std::string>>>;

Strategy model_parallel(const std::vector<int>& shape, const std::vector<std::string>& axis_names,
                        const std::vector<std::string>& devices, const Layouts& layouts,
                        const std::string& batch_dim_name, int microbatches,
                        const std::string& schedule, int chunks,
                        const std::vector<std::vector<std::string>>& layers, int shard) {
  return unlocked([&] {
    LayoutMap map(DeviceMesh(shape, axis_names, devices));
    for (const auto& [key, axes] : layouts) map[key] = TensorLayout(axes);
    return Strategy(ModelParallel(map, {.batch_dim_name = batch_dim_name,
                                        .microbatches = microbatches,
                                        .schedule = schedule,
                                        .chunks = chunks,
                                        .layers = layers,
                                        .shard = static_cast<Shard>(shard)}));
  });
}

Strategy pipeline_strategy(int stages, int microbatches, const std::string& schedule, int chunks,
                           int replicas, const std::vector<std::string>& devices,
                           const std::vector<std::vector<std::string>>& layers) {
  return unlocked([&] {
    return Strategy(PipelineStrategy({.stages = stages,
                                      .microbatches = microbatches,
                                      .schedule = schedule,
                                      .chunks = chunks,
                                      .replicas = replicas,
                                      .devices = devices,
                                      .layers = layers}));
  });
}

}  // namespace

void bind_mesh(nb::module_& m) {
  m.def("model_parallel", model_parallel, "shape"_a, "axis_names"_a, "devices"_a, "layouts"_a,
        "batch_dim_name"_a, "microbatches"_a, "schedule"_a, "chunks"_a, "layers"_a, "shard"_a);
  m.def("pipeline_strategy", pipeline_strategy, "stages"_a, "microbatches"_a, "schedule"_a,
        "chunks"_a, "replicas"_a, "devices"_a, "layers"_a);
  m.def("mesh_devices",
        [](const std::vector<int>& shape, const std::vector<std::string>& axis_names) {
          return DeviceMesh(shape, axis_names).devices();
        });
  m.attr("AUTOMATIC_MICROBATCHES") = PipelineOptions::automatic;
  m.attr("DEFAULT_MICROBATCHES") = ModelParallelOptions().microbatches;

  using namespace keras::distribution;
  m.def("cut_axis_of_weight", [](const Variable& weight) { return cut_axis(weight); });
  m.def("cut_axis", [](nb::handle x) { return cut_axis(to_tensor(x)); });
  m.def("part_of_weight", [](const Variable& weight, int axis) { return part_of(weight, axis); });
  m.def("part_of", [](nb::handle x, int axis) { return part_of(to_tensor(x), axis); });
  m.def("mark_part", [](nb::handle x, int axis) { return mark_part(to_tensor(x), axis); });
  m.def("gather_parts", [](nb::handle x) { return gather(to_tensor(x)); });
  m.def("sum_of_parts",
        [](nb::object f) { return sum_of_parts([&] { return to_tensor(nb::object(f())); }); });
  m.def("part_count", part_count);
  m.def("part_number", [] { return part_number(); });
}

}  // namespace tandem::python
