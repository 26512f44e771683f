#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "distribute/per_replica.h"
#include "graph/function_body.h"
#include "runtime/teams.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tensor/store.h"

namespace tandem::distribute {
namespace {

using devices::DevicePtr;

std::vector<DevicePtr> default_devices() {
  const auto& all = devices::placement_order();
  std::vector<DevicePtr> chosen;
  std::ranges::copy_if(all, std::back_inserter(chosen),
                       [&](const DevicePtr& d) { return d->spec().type == all[0]->spec().type; });
  return chosen;
}

std::vector<DevicePtr> named_devices(const std::vector<std::string>& names) {
  std::vector<DevicePtr> chosen;
  for (const std::string& name : names) {
    chosen.push_back(devices::find_device(DeviceSpec::parse(name)));
    if (std::ranges::count(chosen, chosen.back()) > 1) {
      throw InvalidArgument(
          fmt::format("MirroredStrategy: {} is given twice", chosen.back()->name()));
    }
  }
  return chosen;
}

void check_shared_memory(const std::vector<DevicePtr>& chosen) {
  for (const DevicePtr& device : chosen) {
    if (&device->space() == &chosen[0]->space()) continue;
    throw Unimplemented(fmt::format(
        "MirroredStrategy: {} and {} do not share memory; replicas can be logical CPUs, or one GPU",
        chosen[0]->name(), device->name()));
  }
}

uint64_t next_owner() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

/// Calls a function for each replica on the first thread of the replica's squad.
class InputJob final : public core::Job {
 public:
  InputJob(std::function<Tensor(const ReplicaContext&)> f, size_t replicas)
      : f_(std::move(f)), values_(replicas) {}

  void play(core::Host& host) override {
    for (const core::Member& member : host.members()) {
      if (member.rank != 0) continue;
      host.playing(member);
      host.doing("its input");
      values_[static_cast<size_t>(member.squad)] =
          f_({member.squad, static_cast<int>(values_.size())});
    }
  }

  Tensors take() { return std::move(values_); }

 private:
  const std::function<Tensor(const ReplicaContext&)> f_;
  Tensors values_;
};

}  // namespace

class MirroredStrategy::Body {
 public:
  explicit Body(std::vector<DevicePtr> devices_in)
      : devices(std::move(devices_in)),
        targets(std::make_shared<graph::Replicas>(
            graph::Replicas{.devices = devices, .owner = next_owner()})),
        store(std::make_shared<Store>(devices, targets->owner)) {}

  int replicas() const { return static_cast<int>(devices.size()); }

  /// Runs and calls take(execution, number of results) before the next run may begin.
  template <class Take>
  void run(const FlatFunction& f, std::span<const PerReplica> arguments, Take take) const {
    if (!op::recorders().empty()) {
      throw FailedPrecondition(
          "run: called under an open gradient tape, which cannot see into it; put the tape inside "
          "the function");
    }
    constexpr size_t kMostArguments = 64;
    if (arguments.size() > kMostArguments) throw InvalidArgument("run: more than 64 arguments");
    std::array<Tensor, kMostArguments> typical;
    uint64_t batched = 0;
    for (size_t i = 0; i < arguments.size(); ++i) {
      typical[i] = arguments[i].values() ? arguments[i].value(0) : arguments[i].whole();
      if (arguments[i].values() || arguments[i].parts() > 0) batched |= uint64_t{1} << i;
    }
    const std::span<const Tensor> tensors(typical.data(), arguments.size());
    const graph::Arguments traced = batched == 0
                                        ? graph::arguments_of(tensors)
                                        : graph::Arguments{.tensors = tensors, .batched = batched};

    auto& body = *f.body();
    const auto concrete = body.concrete(traced, {.replicas = targets});
    const auto execution = body.execution(*concrete);
    const auto lock = execution->lock();
    bind(*concrete, *execution, arguments, batched == 0 ? traced.rows : -1);
    body.run(*concrete, *execution);
    take(*execution, concrete->results.size());
  }

  /// A list of tensors that nobody else holds any more, or a new one.
  std::shared_ptr<Tensors> recycled_list() const {
    std::lock_guard lock(lists_mutex_);
    for (const auto& list : lists_) {
      if (list.use_count() == 1) return list;
    }
    lists_.push_back(std::make_shared<Tensors>(devices.size()));
    return lists_.back();
  }

  const std::vector<DevicePtr> devices;
  const graph::ReplicasPtr targets;
  const std::shared_ptr<Store> store;

 private:
  /// `whole_rows` is the rows of every replica where the arguments are the same for all; else
  /// negative.
  void bind(const graph::Concrete& concrete, graph::Execution& execution,
            std::span<const PerReplica> arguments, int64_t whole_rows) const {
    int64_t global = 0;
    for (int r = 0; r < replicas(); ++r) global += rows_of(concrete, arguments, r, whole_rows);
    int64_t offset = 0;
    for (int r = 0; r < replicas(); ++r) {
      const int64_t rows = rows_of(concrete, arguments, r, whole_rows);
      execution.set_shard(r, {rows, offset}, global);
      for (size_t i = 0; i < arguments.size(); ++i) {
        const PerReplica& argument = arguments[i];
        const int index = static_cast<int>(i);
        if (argument.parts() > 0) {
          const auto shard = shard_of(argument.whole().shape()[0], r, replicas());
          execution.bind_rows(r, index, argument.whole(), shard.row_offset, shard.rows);
        } else {
          execution.bind(r, index, argument.value(r));
        }
      }
      offset += rows;
    }
  }

  /// The rows of one replica, on which all its batched arguments must agree.
  int64_t rows_of(const graph::Concrete& concrete, std::span<const PerReplica> arguments,
                  int replica, int64_t whole_rows) const {
    int64_t rows = whole_rows;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const PerReplica& argument = arguments[i];
      int64_t own = -1;
      if (argument.parts() > 0) {
        check_count(argument.parts());
        own = shard_of(argument.whole().shape()[0], replica, replicas()).rows;
      } else if (argument.values()) {
        check_count(static_cast<int>(argument.values()->size()));
        const Tensor& value = (*argument.values())[static_cast<size_t>(replica)];
        check_type(concrete.arguments[i], value, replica, i);
        own = value.shape().rows();
      }
      if (own < 0) continue;
      if (rows >= 0 && rows != own) {
        throw InvalidArgument(
            fmt::format("run: arguments of replica {} ({}) differ in rows, {} and {}", replica,
                        devices[static_cast<size_t>(replica)]->name(), rows, own));
      }
      rows = own;
    }
    return std::max<int64_t>(rows, 0);
  }

  void check_count(int values) const {
    if (values == replicas()) return;
    throw InvalidArgument(fmt::format(
        "run: an argument has values for {} replicas, the strategy has {}", values, replicas()));
  }

  void check_type(const op::TensorType& traced, const Tensor& value, int replica,
                  size_t index) const {
    const Shape& shape = value.shape();
    bool same = value.dtype() == traced.dtype && shape.rank() == traced.shape.rank();
    for (int axis = 0; same && axis < shape.rank(); ++axis) {
      same = traced.shape[axis] < 0 || traced.shape[axis] == shape[axis];
    }
    if (same) return;
    throw InvalidArgument(fmt::format(
        "run: argument {} is {}{} on replica {} ({}), but {}{} on replica 0", index,
        name_of(value.dtype()), shape.str(), replica, devices[static_cast<size_t>(replica)]->name(),
        name_of(traced.dtype), traced.shape.str()));
  }

  mutable std::mutex lists_mutex_;
  mutable std::vector<std::shared_ptr<Tensors>> lists_;
};

MirroredStrategy::MirroredStrategy(const std::vector<std::string>& names) {
  auto chosen = names.empty() ? default_devices() : named_devices(names);
  check_shared_memory(chosen);
  body_ = std::make_shared<Body>(std::move(chosen));
}

int MirroredStrategy::num_replicas_in_sync() const { return body_->replicas(); }

std::vector<std::string> MirroredStrategy::devices() const {
  std::vector<std::string> names;
  for (const DevicePtr& device : body_->devices) names.push_back(device->name());
  return names;
}

struct MirroredStrategy::Scope::Held {
  explicit Held(const std::shared_ptr<Store>& in) : store(in) {}
  StoreScope store;
};

MirroredStrategy::Scope::Scope(std::unique_ptr<Held> held) : held_(std::move(held)) {}
MirroredStrategy::Scope::~Scope() = default;

MirroredStrategy::Scope MirroredStrategy::scope() const {
  return Scope(std::make_unique<Scope::Held>(body_->store));
}

PerReplica MirroredStrategy::split(const Tensor& batch) const {
  return PerReplica::split(batch, body_->replicas());
}

PerReplica MirroredStrategy::values_from_function(
    const std::function<Tensor(const ReplicaContext&)>& f) const {
  auto job = std::make_shared<InputJob>(f, body_->devices.size());
  runtime::team_slot(body_->devices)->run(job);
  return PerReplica(job->take());
}

std::vector<PerReplica> MirroredStrategy::run_flat(const FlatFunction& f,
                                                   std::span<const PerReplica> arguments) const {
  std::vector<PerReplica> results;
  body_->run(f, arguments, [&](const graph::Execution& execution, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      Tensors values;
      for (int r = 0; r < body_->replicas(); ++r) {
        values.push_back(execution.result(r, static_cast<int>(i)));
      }
      results.emplace_back(std::move(values));
    }
  });
  return results;
}

PerReplica MirroredStrategy::run_single(const FlatFunction& f,
                                        std::span<const PerReplica> arguments) const {
  std::shared_ptr<Tensors> values = body_->recycled_list();
  body_->run(f, arguments, [&](const graph::Execution& execution, size_t) {
    for (int r = 0; r < body_->replicas(); ++r) {
      (*values)[static_cast<size_t>(r)] = execution.result(r, 0);
    }
  });
  return PerReplica(std::shared_ptr<const Tensors>(std::move(values)));
}

Tensors MirroredStrategy::local_results(const PerReplica& value) const {
  Tensors values;
  for (int r = 0; r < body_->replicas(); ++r) values.push_back(value.value(r));
  return values;
}

Tensor MirroredStrategy::reduce(ReduceOp op, const PerReplica& value,
                                std::optional<int> axis) const {
  Tensor sum;
  int64_t count = 0;
  for (const Tensor& own : local_results(value)) {
    const Tensor part = axis ? reduce_sum(own, {.axes = std::vector<int>{*axis}}) : own;
    count += axis ? own.shape()[*axis < 0 ? *axis + own.rank() : *axis] : 1;
    sum = sum.defined() ? add(sum, part) : part;
  }
  return op == ReduceOp::sum ? sum : sum * (1.0 / static_cast<double>(count));
}

}  // namespace tandem::distribute
