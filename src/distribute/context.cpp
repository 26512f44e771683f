#include "distribute/context.h"

#include <fmt/format.h>

#include <utility>

#include "collective/collective.h"
#include "distribute/strategy_body.h"
#include "tandem/distribute/replica_context.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::distribute {
namespace {

thread_local std::optional<Strategy> scoped;
thread_local const Strategy* running = nullptr;
thread_local int merging = 0;

const Strategy& default_strategy() {
  static const auto* strategy = new Strategy(std::make_shared<const Strategy::Body>());
  return *strategy;
}

const Strategy* current() {
  if (running != nullptr) return running;
  return scoped ? &*scoped : nullptr;
}

void check_not_within_another(const char* what, const Strategy& strategy) {
  if (current() == nullptr || *current() == strategy) return;
  const auto text = [](const Strategy& one) {
    std::string devices;
    for (const std::string& device : one.devices()) {
      devices += fmt::format("{}{}", devices.empty() ? " on " : ", ", device);
    }
    return fmt::format("{}{}", one.name(), devices);
  };
  throw FailedPrecondition(fmt::format(
      "{} of {}: called inside {} of {}; one program uses one strategy, so end the other first",
      what, text(strategy), running != nullptr ? "a run" : "the scope", text(*current())));
}

}  // namespace

struct Strategy::Scope::Held {
  explicit Held(const Strategy& strategy)
      : former(std::exchange(scoped, std::optional(strategy))), store(strategy.body().store()) {}
  ~Held() { scoped = std::move(former); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  std::optional<Strategy> former;
  StoreScope store;
};

Strategy::Scope::Scope(std::unique_ptr<Held> held) : held_(std::move(held)) {}
Strategy::Scope::~Scope() = default;

Strategy::Scope Strategy::scope() const {
  check_not_within_another("scope", *this);
  return Scope(body_->is_default() ? nullptr : std::make_unique<Scope::Held>(*this));
}

RunScope::RunScope(const Strategy& strategy)
    : former_((check_not_within_another("run", strategy), std::exchange(running, &strategy))) {
  if (strategy.body().store()) store_.emplace(strategy.body().store());
}
RunScope::~RunScope() { running = former_; }

Strategy get_strategy() { return current() != nullptr ? *current() : default_strategy(); }

bool has_strategy() { return current() != nullptr && !current()->body().is_default(); }

bool is_merging() { return merging > 0; }

bool in_cross_replica_context() { return !get_replica_context(); }

std::optional<ReplicaContext> get_replica_context() {
  const bool in_replica = running != nullptr ? merging == 0 : !scoped;
  return in_replica ? std::optional(ReplicaContext()) : std::nullopt;
}

void check_cross_replica(const char* what) {
  if (running == nullptr || merging > 0) return;
  throw FailedPrecondition(
      fmt::format("{}: called inside run, by a replica that has only its own values; use "
                  "get_replica_context()->all_reduce or all_gather, or {} within merge_call",
                  what, what));
}

Tensor all_reduced(ReduceOp op, const Tensor& value) {
  const Tensor sum = collective::all_reduce({value})[0];
  return op == ReduceOp::sum ? sum : sum * (1.0 / collective::group_size());
}

/// Each replica's value at its own place among zeros, then the sum: whoever has a gradient and
/// transport for all_reduce has them for this.
Tensor all_gathered(const Tensor& value, int axis) {
  const int model = collective::group_size(collective::Axis::model);
  const int count = collective::group_size();
  if (axis < -value.rank() || axis >= value.rank()) {
    throw InvalidArgument(
        fmt::format("all_gather: axis {} of a value of shape {}", axis, value.shape().str()));
  }
  if (count == model) return value;
  if (value.shape().is_symbolic()) {
    throw InvalidArgument(fmt::format(
        "all_gather: a value of shape {} has the rows of the replica's batch, whose number differs "
        "between replicas; return it from the function and use strategy.gather",
        value.shape().str()));
  }
  const Tensor id = collective::replica_id();
  Tensors places;
  for (int r = 0; r < count; r += model) {
    places.push_back(where(equal(id, Tensor(static_cast<int32_t>(r))), value, zeros_like(value)));
  }
  return concat(collective::all_reduce(places), axis);
}

Strategy ReplicaContext::strategy() const { return get_strategy(); }

int ReplicaContext::num_replicas_in_sync() const {
  return collective::group_size() / collective::group_size(collective::Axis::model);
}

Tensor ReplicaContext::replica_id_in_sync_group() const { return collective::replica_id(); }

Tensor ReplicaContext::all_reduce(ReduceOp op, const Tensor& value) const {
  return all_reduced(op, value);
}

Tensor ReplicaContext::all_gather(const Tensor& value, int axis) const {
  return all_gathered(value, axis);
}

ReplicaContext::MergeScope::MergeScope() { ++merging; }
ReplicaContext::MergeScope::~MergeScope() { --merging; }

}  // namespace tandem::distribute
