// Parameter servers, and the coordinator that gives work to their workers.
#include <nanobind/stl/map.h>

#include <chrono>

#include "binding.h"

namespace tandem::python {
namespace {

using namespace distribute;

/// How variables are cut: the name of a partitioner and its numbers; none by default.
Partitioner to_partitioner(const nb::tuple& given) {
  if (given.size() == 0) return {};
  const auto name = nb::cast<std::string>(given[0]);
  const auto first = nb::cast<int64_t>(given[1]);
  if (name == "fixed_shards") return partitioners::fixed_shards(first);
  const auto most = nb::cast<std::optional<int64_t>>(given[2]);
  return name == "min_size" ? partitioners::min_size(first, most.value_or(1))
                            : partitioners::max_size(first, most);
}

cluster_resolver::ClusterResolverPtr to_resolver(
    const std::optional<train::ClusterSpec::Addresses>& cluster, const std::string& task_type,
    int task_id) {
  if (!cluster) return nullptr;
  return std::make_shared<cluster_resolver::SimpleClusterResolver>(train::ClusterSpec(*cluster),
                                                                   task_type, task_id);
}

}  // namespace

void bind_servers(nb::module_& m) {
  nb::class_<ParameterServerStrategy, Strategy>(m, "ParameterServerStrategy")
      .def("close", [](const ParameterServerStrategy& self) { unlocked([&] { self.close(); }); })
      .def("staleness_histogram", [](const ParameterServerStrategy& self) {
        return unlocked([&] { return self.staleness_histogram(); });
      });
  m.def(
      "parameter_server_strategy",
      [](const std::optional<train::ClusterSpec::Addresses>& cluster, const std::string& task_type,
         int task_id, std::optional<int64_t> staleness, bool damping,
         std::optional<int64_t> drop_older_than, const nb::tuple& partitioner,
         const std::vector<std::string>& devices, int workers, int servers, bool reproducible,
         bool sparse_update, size_t bytes_in_files, int64_t patience) {
        const ParameterServerOptions options{
            .staleness = staleness.value_or(unbounded),
            .damping = damping,
            .drop_older_than = drop_older_than,
            .partitioner = to_partitioner(partitioner),
            .devices = devices,
            .workers = workers,
            .servers = servers,
            .reproducible = reproducible,
            .cluster_resolver = to_resolver(cluster, task_type, task_id),
            .sparse_update = sparse_update,
            .bytes_in_files = bytes_in_files,
            .patience = std::chrono::seconds(patience)};
        return unlocked([&] { return ParameterServerStrategy(options); });
      },
      "cluster"_a.none(), "task_type"_a, "task_id"_a, "staleness"_a.none(), "damping"_a,
      "drop_older_than"_a.none(), "partitioner"_a, "devices"_a, "workers"_a, "servers"_a,
      "reproducible"_a, "sparse_update"_a, "bytes_in_files"_a, "patience"_a);
  nb::class_<ClusterCoordinator::RemoteValue>(m, "RemoteValue")
      .def("fetch", [](const ClusterCoordinator::RemoteValue& self) {
        return from_tensors(unlocked([&] { return self.fetch(); }));
      });
  nb::class_<ClusterCoordinator>(m, "ClusterCoordinator")
      .def(nb::init<Strategy>())
      .def("schedule",
           [](ClusterCoordinator& self, const FlatFunction& step, nb::handle arguments) {
             const PerReplicas values = to_per_replicas(arguments);
             return unlocked([&] { return self.schedule(step, values); });
           })
      .def("join", [](ClusterCoordinator& self) { unlocked([&] { self.join(); }); })
      .def("done",
           [](const ClusterCoordinator& self) { return unlocked([&] { return self.done(); }); });
}

}  // namespace tandem::python
