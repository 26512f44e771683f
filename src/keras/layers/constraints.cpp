// Keras's constraints, their names, and the table of the variables that have one.
#include "keras/layers/constraints.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string_view>

#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

constexpr double kEpsilon = 1e-7;

Constraint constraint_named(std::string_view name) {
  if (name == "max_norm") return constraints::max_norm();
  if (name == "min_max_norm") return constraints::min_max_norm();
  if (name == "non_neg") return constraints::non_neg();
  if (name == "unit_norm") return constraints::unit_norm();
  throw InvalidArgument(fmt::format(
      "constraint '{}' is not known; there are max_norm, min_max_norm, non_neg, unit_norm", name));
}

Tensor norms_of(const Tensor& weight, const std::vector<int>& axes) {
  return sqrt(reduce_sum(square(weight), {.axes = axes, .keepdims = true}));
}

void check_range(const char* name, double low, double high) {
  if (low >= 0 && low <= high) return;
  throw InvalidArgument(fmt::format(
      "constraints: {} of norms from {} to {}; 0 or more, the smaller one first, is accepted", name,
      low, high));
}

/// The table forgets variables that are gone when one is added.
class ConstrainedVariables {
 public:
  void set(const Variable& variable, const Constraint& constraint) {
    const std::lock_guard lock(mutex_);
    std::erase_if(constraints_, [](const auto& entry) { return entry.second.alive.expired(); });
    constraints_[variable.body().get()] = {variable.body(), constraint};
  }

  Constraint of(const Variable& variable) {
    const std::lock_guard lock(mutex_);
    const auto found = constraints_.find(variable.body().get());
    const bool is_this = found != constraints_.end() && !found->second.alive.expired();
    return is_this ? found->second.constraint : Constraint();
  }

 private:
  struct Entry {
    std::weak_ptr<VariableBody> alive;
    Constraint constraint;
  };

  std::mutex mutex_;
  std::map<const VariableBody*, Entry> constraints_;
};

ConstrainedVariables& constrained_variables() {
  static auto* variables = new ConstrainedVariables();
  return *variables;
}

}  // namespace

Constraint::Constraint(const char* name) : Constraint(constraint_named(name)) {}

void constrain(const Variable& variable, const Constraint& constraint) {
  constrained_variables().set(variable, constraint);
}

Constraint constraint_of(const Variable& variable) { return constrained_variables().of(variable); }

namespace constraints {

Constraint max_norm(double max_value, const std::vector<int>& axes) {
  check_range("max_norm", 0, max_value);
  return Constraint([=](const Tensor& weight) {
    const Tensor norms = norms_of(weight, axes);
    return weight * (clip(norms, 0, max_value) / (norms + kEpsilon));
  });
}

Constraint min_max_norm(double min_value, double max_value, double rate,
                        const std::vector<int>& axes) {
  check_range("min_max_norm", min_value, max_value);
  return Constraint([=](const Tensor& weight) {
    const Tensor norms = norms_of(weight, axes);
    const Tensor wanted = clip(norms, min_value, max_value) * rate + norms * (1 - rate);
    return weight * (wanted / (norms + kEpsilon));
  });
}

Constraint non_neg() {
  return Constraint([](const Tensor& weight) { return relu(weight); });
}

Constraint unit_norm(const std::vector<int>& axes) {
  return Constraint(
      [=](const Tensor& weight) { return weight / (norms_of(weight, axes) + kEpsilon); });
}

}  // namespace constraints
}  // namespace tandem::keras
