#include "distribute/strategy_body.h"

#include <fmt/format.h>

#include <algorithm>

#include "distribute/context.h"
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

/// The rows of a replica's part of an argument that differs between replicas, or -1 where it has no
/// leading axis.
int64_t rows_of(const graph::Argument& argument, int replica, int replicas) {
  const Tensor& tensor = argument.of(replica);
  if (tensor.rank() == 0) return -1;
  const int64_t rows = tensor.shape().extent(0);
  return argument.kind == graph::Argument::Kind::own
             ? rows
             : graph::shard_of(rows, replica, replicas).rows;
}

/// The rows that every replica has, or kUnequal.
int64_t common_rows(const graph::Shards& shards) {
  const int64_t first = shards[0].rows;
  const bool equal = std::ranges::all_of(
      shards, [&](const graph::BatchShard& each) { return each.rows == first; });
  return equal ? first : graph::Arguments::kUnequal;
}

bool fits(const Tensor& value, const op::TensorType& traced) {
  const Shape& shape = value.shape();
  if (value.dtype() != traced.dtype || shape.rank() != traced.shape.rank()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t wanted = traced.shape.extent(axis);
    if (wanted >= 0 && wanted != shape.extent(axis)) return false;
  }
  return true;
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

graph::Results Strategy::Body::run(const Strategy& self, const FlatFunction& f,
                                   std::span<const PerReplica> arguments) const {
  if (!op::recorders().empty()) {
    throw FailedPrecondition(
        "run: called under an open gradient tape, which cannot see into it; put the tape inside "
        "the function");
  }
  const graph::ArgumentList list = listed(arguments);
  const graph::Shards shards = shards_of(list);
  graph::Arguments given{.tensors = list, .rows = common_rows(shards)};
  if (std::ranges::any_of(list, &graph::Argument::differs)) {
    given.batch = graph::Arguments::Batch::by_replica;
  }
  f.body()->check_signature(given);
  graph::ConcreteFunctionPtr concrete;
  {
    const RunScope running(self);
    concrete = f.body()->find_or_compile(given, {.replicas = replicas_});
  }
  check_types(*concrete, list);
  return f.body()->run(*concrete, {.tensors = list, .shards = shards});
}

std::shared_ptr<Tensors> Strategy::Body::recycled_list() const {
  std::lock_guard lock(lists_mutex_);
  for (const auto& list : lists_) {
    if (list.use_count() == 1) return list;
  }
  lists_.push_back(std::make_shared<Tensors>(static_cast<size_t>(replicas())));
  return lists_.back();
}

graph::ArgumentList Strategy::Body::listed(std::span<const PerReplica> arguments) const {
  using enum graph::Argument::Kind;
  graph::ArgumentList list;
  for (const PerReplica& argument : arguments) {
    const auto* values = argument.values().get();
    const int count = values != nullptr ? static_cast<int>(values->size()) : argument.parts();
    if (count != 0 && count != replicas()) {
      throw InvalidArgument(fmt::format(
          "run: an argument has values for {} replicas, the strategy has {}", count, replicas()));
    }
    if (values != nullptr) {
      list.push_back({values->data(), own});
    } else {
      list.push_back({&argument.whole(), argument.parts() > 0 ? rows : same});
    }
  }
  return list;
}

/// The part of the batch that each replica has. All arguments that differ between replicas must
/// agree on it; without them each replica has a batch of its own.
graph::Shards Strategy::Body::shards_of(std::span<const graph::Argument> arguments) const {
  const bool has_batch = std::ranges::any_of(arguments, &graph::Argument::differs);
  graph::Shards shards;
  int64_t offset = 0;
  for (int r = 0; r < replicas(); ++r) {
    int64_t rows = has_batch ? -1 : graph::leading_size(arguments);
    for (const graph::Argument& argument : arguments) {
      const int64_t own = argument.differs() ? rows_of(argument, r, replicas()) : -1;
      if (own < 0) continue;
      if (rows >= 0 && rows != own) {
        throw InvalidArgument(
            fmt::format("run: arguments of replica {} ({}) differ in rows, {} and {}", r,
                        devices()[static_cast<size_t>(r)]->name(), rows, own));
      }
      rows = own;
    }
    shards.push_back({std::max<int64_t>(rows, 0), offset});
    offset += shards[static_cast<size_t>(r)].rows;
  }
  return shards;
}

void Strategy::Body::check_types(const graph::ConcreteFunction& concrete,
                                 std::span<const graph::Argument> arguments) const {
  for (int r = 0; r < replicas(); ++r) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].kind != graph::Argument::Kind::own) continue;
      const Tensor& value = arguments[i].of(r);
      const op::TensorType& traced = concrete.arguments[i];
      if (fits(value, traced)) continue;
      throw InvalidArgument(fmt::format(
          "run: argument {} is {} on replica {} ({}), but {} on "
          "replica 0",
          i, type_of(value).str(), r, devices()[static_cast<size_t>(r)]->name(), traced.str()));
    }
  }
}

}  // namespace tandem::distribute
