#include "tandem/keras/distribution.h"

#include <utility>

#include "collective/parts.h"

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

}  // namespace tandem::keras::distribution
