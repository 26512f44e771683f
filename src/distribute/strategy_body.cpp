#include "distribute/strategy_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory_resource>

#include "distribute/context.h"
#include "distribute/sharding.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

std::vector<devices::DevicePtr> store_devices(const graph::Replicas& replicas) {
  if (replicas.central) return {replicas.central};
  std::vector<devices::DevicePtr> each;
  for (const devices::DevicePtr& device : replicas.devices) {
    if (std::ranges::find(each, device) == each.end()) each.push_back(device);
  }
  return each;
}

/// True for a batch that is split, and for a tensor of each replica's own.
bool differs_between_replicas(const PerReplica& argument) {
  return argument.values() != nullptr || argument.parts() > 0;
}

/// The rows of a replica's part of an argument, or -1 where it has no leading axis.
int64_t rows_of_part(const PerReplica& argument, int replica, int replicas) {
  if (argument.parts() > 0) {
    return shard_of(argument.whole().shape().extent(0), replica, replicas).rows;
  }
  const Tensor& value = (*argument.values())[static_cast<size_t>(replica)];
  return value.rank() == 0 ? -1 : value.shape().extent(0);
}

}  // namespace

Strategy::Body::Body(std::string name, graph::Replicas replicas)
    : name_(std::move(name)),
      replicas_(std::make_shared<graph::Replicas>(std::move(replicas))),
      store_(std::make_shared<Store>(store_devices(*replicas_), replicas_->owner,
                                     replicas_->devices)) {}

const std::vector<devices::DevicePtr>& Strategy::Body::devices() const {
  static const auto* none = new std::vector<devices::DevicePtr>;
  return replicas_ ? replicas_->devices : *none;
}

bool Strategy::Body::shares_memory() const {
  const auto& space = [](const devices::DevicePtr& device) { return &device->space(); };
  return is_default() ||
         (std::ranges::all_of(devices(),
                              [&](const devices::DevicePtr& device) {
                                return space(device) == space(devices()[0]);
                              }) &&
          (!replicas_->central || space(replicas_->central) == space(devices()[0])));
}

Strategy::Body::PreparedRun Strategy::Body::prepare(const Strategy& self, const FlatFunction& f,
                                                    std::span<const PerReplica> arguments) const {
  if (!op::recorders().empty()) {
    throw FailedPrecondition(
        "run: called under an open gradient tape, which cannot see into it; put the tape inside "
        "the function");
  }
  // Steps of up to this many arguments allocate nothing for the list of them.
  constexpr size_t kUsualArguments = 64;
  alignas(Tensor) std::array<std::byte, kUsualArguments * sizeof(Tensor)> room;
  std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
  std::pmr::vector<Tensor> typical(&memory);
  typical.reserve(arguments.size());
  for (const PerReplica& argument : arguments) {
    typical.push_back(argument.values() ? argument.value(0) : argument.whole());
  }
  const bool has_batch = std::ranges::any_of(arguments, differs_between_replicas);
  graph::Arguments traced = graph::arguments_of(typical);
  if (has_batch) {
    traced.rows = common_rows(arguments);
    traced.batched = [arguments = arguments.data()](size_t i) {
      return differs_between_replicas(arguments[i]);
    };
  }
  f.body()->check_signature(traced);
  const RunScope running(self);
  PreparedRun prepared;
  prepared.concrete = f.body()->find_or_compile(traced, {.replicas = replicas_});
  prepared.held = f.body()->hold(*prepared.concrete);
  if (!has_batch) prepared.whole_rows = traced.rows;
  return prepared;
}

/// The rows that every replica has, or kUnequal.
int64_t Strategy::Body::common_rows(std::span<const PerReplica> arguments) const {
  for (const PerReplica& argument : arguments) {
    if (!differs_between_replicas(argument)) continue;
    if (argument.values()) check_count(static_cast<int>(argument.values()->size()));
    const int64_t first = rows_of_part(argument, 0, replicas());
    if (first < 0) continue;
    for (int r = 1; r < replicas(); ++r) {
      if (rows_of_part(argument, r, replicas()) != first) return graph::Arguments::kUnequal;
    }
    return first;
  }
  return 1;
}

std::shared_ptr<Tensors> Strategy::Body::recycled_list() const {
  std::lock_guard lock(lists_mutex_);
  for (const auto& list : lists_) {
    if (list.use_count() == 1) return list;
  }
  lists_.push_back(std::make_shared<Tensors>(static_cast<size_t>(replicas())));
  return lists_.back();
}

void Strategy::Body::bind(const PreparedRun& prepared,
                          std::span<const PerReplica> arguments) const {
  const graph::ConcreteFunction& concrete = *prepared.concrete;
  graph::Execution& execution = *prepared.held.execution;
  int64_t global = 0;
  for (int r = 0; r < replicas(); ++r) {
    global += rows_of(concrete, arguments, r, prepared.whole_rows);
  }
  int64_t offset = 0;
  for (int r = 0; r < replicas(); ++r) {
    const int64_t rows = rows_of(concrete, arguments, r, prepared.whole_rows);
    execution.set_shard(r, {rows, offset}, global);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const PerReplica& argument = arguments[i];
      const int index = static_cast<int>(i);
      if (argument.parts() > 0) {
        const auto shard = shard_of(argument.whole().shape().extent(0), r, replicas());
        execution.bind_rows(r, index, argument.whole(), shard.row_offset, shard.rows);
      } else {
        execution.bind(r, index, argument.value(r));
      }
    }
    offset += rows;
  }
}

/// The rows of one replica, on which all its batched arguments must agree.
int64_t Strategy::Body::rows_of(const graph::ConcreteFunction& concrete,
                                std::span<const PerReplica> arguments, int replica,
                                int64_t whole_rows) const {
  int64_t rows = whole_rows;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const PerReplica& argument = arguments[i];
    if (!differs_between_replicas(argument)) continue;
    check_count(argument.parts() > 0 ? argument.parts()
                                     : static_cast<int>(argument.values()->size()));
    if (argument.values()) {
      check_type(concrete.arguments[i], argument.value(replica), replica, i);
    }
    const int64_t own = rows_of_part(argument, replica, replicas());
    if (own < 0) continue;
    if (rows >= 0 && rows != own) {
      throw InvalidArgument(
          fmt::format("run: arguments of replica {} ({}) differ in rows, {} and {}", replica,
                      devices()[static_cast<size_t>(replica)]->name(), rows, own));
    }
    rows = own;
  }
  return std::max<int64_t>(rows, 0);
}

void Strategy::Body::check_count(int values) const {
  if (values == replicas()) return;
  throw InvalidArgument(fmt::format(
      "run: an argument has values for {} replicas, the strategy has {}", values, replicas()));
}

void Strategy::Body::check_type(const op::TensorType& traced, const Tensor& value, int replica,
                                size_t index) const {
  const Shape& shape = value.shape();
  bool same = value.dtype() == traced.dtype && shape.rank() == traced.shape.rank();
  for (int axis = 0; same && axis < shape.rank(); ++axis) {
    same = traced.shape.extent(axis) < 0 || traced.shape.extent(axis) == shape.extent(axis);
  }
  if (same) return;
  throw InvalidArgument(fmt::format(
      "run: argument {} is {} on replica {} ({}), but {} on replica 0", index, type_of(value).str(),
      replica, devices()[static_cast<size_t>(replica)]->name(), traced.str()));
}

}  // namespace tandem::distribute
