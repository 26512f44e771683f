// Strategies, values of replicas, and data sets that are dealt to them.
#include <nanobind/stl/map.h>
#include <nanobind/stl/tuple.h>

#include "binding.h"

namespace tandem::python {
namespace {

using namespace distribute;

class Scope {
 public:
  explicit Scope(Strategy strategy) : strategy_(std::move(strategy)) {}
  void enter() { scope_.emplace(strategy_); }
  void exit() { scope_.reset(); }

 private:
  struct Held {
    explicit Held(const Strategy& strategy) : scope(strategy.scope()) {}
    Strategy::Scope scope;
  };
  Strategy strategy_;
  std::optional<Held> scope_;
};

/// A function that a strategy runs: traced once, for all replicas.
class ReplicaFunction : public FlatFunction {
 public:
  ReplicaFunction(Callable f, const std::string& name)
      : FlatFunction(TensorFn([f = std::move(f)](const Tensors& arguments) {
                       return f.call([&](const nb::object& call) {
                         return to_tensors(call(from_tensors(arguments)));
                       });
                     }),
                     {.name = name}) {}
};

class PyDistributedIterator final : public Closable {
 public:
  explicit PyDistributedIterator(DistributedDataset::Iterator iterator)
      : iterator_(std::make_unique<DistributedDataset::Iterator>(std::move(iterator))) {}
  ~PyDistributedIterator() override { close(); }
  void close() override {
    const nb::gil_scoped_release released;
    iterator_.reset();
  }
  std::optional<PerReplicas> next() {
    if (!iterator_) return std::nullopt;
    return unlocked([&] { return iterator_->next(); });
  }

 private:
  std::unique_ptr<DistributedDataset::Iterator> iterator_;
};

ReduceOp to_reduce_op(const std::string& name) {
  if (name == "SUM") return ReduceOp::sum;
  if (name == "MEAN") return ReduceOp::mean;
  throw InvalidArgument("reduce: '" + name + "'; SUM and MEAN are accepted");
}

using Addresses = train::ClusterSpec::Addresses;

/// A strategy of several processes: those in `cluster`, or those that the environment names.
Strategy multi_worker_mirrored_strategy(const std::optional<Addresses>& cluster,
                                        const std::string& task_type, int task_id,
                                        std::optional<int> shards, double timeout_seconds,
                                        int64_t bucket_bytes, int shard) {
  MultiWorkerOptions options{.reproducible_shards = shards, .shard = static_cast<Shard>(shard)};
  if (bucket_bytes > 0) options.communication.bucket_bytes = bucket_bytes;
  options.communication.timeout =
      std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
  if (cluster) {
    options.cluster_resolver = std::make_shared<cluster_resolver::SimpleClusterResolver>(
        train::ClusterSpec(*cluster), task_type, task_id);
  }
  return unlocked([&] { return Strategy(MultiWorkerMirroredStrategy(options)); });
}

/// What TF_CONFIG says: the tasks' addresses, and which of them this process is.
std::tuple<Addresses, std::string, int> tf_config() {
  const cluster_resolver::TFConfigClusterResolver resolver;
  return {resolver.cluster_spec().as_dict(), resolver.task_type(), resolver.task_id()};
}

}  // namespace

PerReplica to_per_replica(nb::handle value) {
  if (nb::isinstance<PerReplica>(value)) return *nb::inst_ptr<PerReplica>(value);
  return PerReplica(to_tensor(value));
}

PerReplicas to_per_replicas(nb::handle list) {
  PerReplicas values;
  for (nb::handle each : nb::borrow<nb::object>(list)) values.push_back(to_per_replica(each));
  return values;
}

void bind_distribute(nb::module_& m) {
  nb::class_<PerReplica>(m, "PerReplica", nb::dynamic_attr())
      .def("__init__",
           [](PerReplica* self, nb::handle values) { new (self) PerReplica(to_tensors(values)); })
      .def("value", &PerReplica::value)
      .def("_str", &PerReplica::str);
  nb::class_<Scope>(m, "StrategyScope").def("enter", &Scope::enter).def("exit", &Scope::exit);
  nb::class_<ReplicaFunction, FlatFunction>(m, "ReplicaFunction")
      .def("__init__", [](ReplicaFunction* self, nb::object f, const std::string& name) {
        new (self) ReplicaFunction(Callable(std::move(f)), name);
      });
  nb::class_<PyDistributedIterator>(m, "DistributedIterator")
      .def("next", &PyDistributedIterator::next);
  nb::class_<DistributedDataset>(m, "DistributedDataset")
      .def(
          "iterator",
          [](const DistributedDataset& self) {
            return new PyDistributedIterator(unlocked([&] { return self.iterator(); }));
          },
          nb::rv_policy::take_ownership)
      .def("cardinality", &DistributedDataset::cardinality);

  nb::class_<Strategy>(m, "Strategy")
      .def_prop_ro("num_replicas_in_sync", &Strategy::num_replicas_in_sync)
      .def_prop_ro("devices", &Strategy::devices)
      .def_prop_ro("name", &Strategy::name)
      .def_prop_ro("is_chief", &Strategy::is_chief)
      .def("explain", &Strategy::explain)
      .def(
          "scope", [](const Strategy& self) { return new Scope(self); },
          nb::rv_policy::take_ownership)
      .def("same", [](const Strategy& a, const Strategy& b) { return a == b; })
      .def("split",
           [](const Strategy& self, nb::handle batch) { return self.split(to_tensor(batch)); })
      .def("distribute_dataset",
           [](const Strategy& self, const data::Dataset& batches) {
             return self.distribute_dataset(batches);
           })
      .def("distribute_datasets_from_function",
           [](const Strategy& self, nb::object f) {
             // The data set is described here, on the caller's thread.
             return self.distribute_datasets_from_function([&](const InputContext& context) {
               return nb::cast<data::Dataset>(f(context.num_input_pipelines,
                                                context.input_pipeline_id,
                                                context.num_replicas_in_sync));
             });
           })
      .def("run",
           [](const Strategy& self, const FlatFunction& f, nb::handle arguments) {
             const PerReplicas values = to_per_replicas(arguments);
             return unlocked([&] { return self.run_flat(f, values); });
           })
      .def(
          "reduce",
          [](const Strategy& self, const std::string& op, nb::handle value,
             std::optional<int> axis) {
            const PerReplica values = to_per_replica(value);
            return unlocked([&] { return self.reduce(to_reduce_op(op), values, axis); });
          },
          "op"_a, "value"_a, "axis"_a.none())
      .def("gather",
           [](const Strategy& self, nb::handle value, int axis) {
             const PerReplica values = to_per_replica(value);
             return unlocked([&] { return self.gather(values, axis); });
           })
      .def("local_results",
           [](const Strategy& self, nb::handle value) {
             const PerReplica values = to_per_replica(value);
             return from_tensors(unlocked([&] { return self.local_results(values); }));
           })
      .def("verify", [](const Strategy& self, nb::handle variables) {
        const Variables list = to_variables(variables);
        unlocked([&] { self.verify(list); });
      });
  m.def(
      "mirrored_strategy",
      [](const std::vector<std::string>& devices, std::optional<int> shards, int reduction,
         int shard) {
        MirroredOptions options{.reproducible_shards = shards,
                                .reduction = static_cast<CrossDeviceReduction>(reduction),
                                .shard = static_cast<Shard>(shard)};
        return Strategy(MirroredStrategy(devices, options));
      },
      "devices"_a, "shards"_a = nb::none(), "reduction"_a = 0, "shard"_a = 0);
  m.def("one_device_strategy",
        [](const std::string& device) { return Strategy(OneDeviceStrategy(device)); });
  m.def("central_storage_strategy", [](const std::vector<std::string>& devices) {
    return Strategy(CentralStorageStrategy(devices));
  });
  m.def("multi_worker_mirrored_strategy", multi_worker_mirrored_strategy, "cluster"_a.none(),
        "task_type"_a, "task_id"_a, "shards"_a.none(), "timeout_seconds"_a, "bucket_bytes"_a = 0,
        "shard"_a = 0);
  m.def("tf_config", tf_config);
  m.def(
      "run_workers",
      [](int workers, int servers, const std::vector<std::string>& hosts, const std::string& ssh,
         const std::vector<std::string>& command) {
        return unlocked([&] {
          return launcher::run_workers({.workers = workers,
                                        .servers = servers,
                                        .hosts = hosts,
                                        .ssh = ssh,
                                        .command = command});
        });
      },
      "workers"_a, "servers"_a, "hosts"_a, "ssh"_a, "command"_a);
  m.def("get_strategy", get_strategy);
  m.def("has_strategy", has_strategy);
  m.def("in_replica_context", [] { return get_replica_context().has_value(); });
  m.def("in_cross_replica_context", in_cross_replica_context);
  m.def("replica_id", [] { return get_replica_context()->replica_id_in_sync_group(); });
  m.def("all_reduce", [](const std::string& op, nb::handle value) {
    return get_replica_context()->all_reduce(to_reduce_op(op), to_tensor(value));
  });
  m.def("all_gather", [](nb::handle value, int axis) {
    return get_replica_context()->all_gather(to_tensor(value), axis);
  });
  m.def("merge_call", [](nb::object f, nb::handle values) {
    const auto merge = [&](const Strategy& strategy, const PerReplica&) {
      return nb::object(f(strategy, nb::borrow<nb::object>(values)));
    };
    return get_replica_context()->merge_call(merge, PerReplica());
  });
}

}  // namespace tandem::python
