#include "tandem/keras/distribution.h"

#include <fmt/format.h>

#include <utility>

#include "collective/collective.h"
#include "collective/parts.h"
#include "keras/layers/cut_weights.h"
#include "tandem/error.h"

namespace tandem::keras::distribution {
namespace {

struct SetDistribution {
  tandem::distribute::Strategy strategy;
  tandem::distribute::Strategy::Scope scope;
};

// It is never destroyed with its thread, at whose end the scopes of strategies are gone already.
thread_local SetDistribution* current = nullptr;

}  // namespace

void set_distribution(const std::optional<tandem::distribute::Strategy>& strategy) {
  delete std::exchange(current, nullptr);
  if (strategy) current = new SetDistribution{*strategy, strategy->scope()};
}

std::optional<tandem::distribute::Strategy> distribution() {
  return current != nullptr ? std::optional(current->strategy) : std::nullopt;
}

Tensor gather(const Tensor& x) { return collective::gather_parts(x); }

int cut_axis(const Variable& weight) { return cut_of(weight).axis; }

int cut_axis(const Tensor& x) { return collective::cut_axis(x); }

Tensor part_of(const Variable& weight, int axis) {
  const int parts = part_count();
  return keras::part_of(weight, {parts == 1 ? -1 : axis, parts});
}

Tensor part_of(const Tensor& x, int axis) {
  const int cut = collective::cut_axis(x);
  if (cut < 0) return collective::own_part(x, axis);
  if (cut == axis) return x;
  throw InvalidArgument(
      fmt::format("part_of: the value is cut along axis {}, not along {}; gather() joins its parts",
                  cut, axis));
}

Tensor mark_part(const Tensor& part, int axis) { return collective::marked_part(part, axis); }

Tensor sum_of_parts(const std::function<Tensor()>& f) {
  const collective::PartsScope of_parts;
  return collective::all_reduce({f()}, collective::Axis::model)[0];
}

int part_count() { return collective::group_size(collective::Axis::model); }

Tensor part_number() { return collective::model_rank(); }

}  // namespace tandem::keras::distribution
