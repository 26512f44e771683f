#include "runtime/placer.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/copies.h"
#include "device/placement_log.h"
#include "device/scope.h"
#include "device/settings.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::runtime {
namespace {

using devices::DevicePtr;
using devices::settings;

enum class Reason { scope, variable, first, missing_device, missing_kernel, skipped };

struct PlacementChoice {
  const DevicePtr* device;
  Reason reason;
  const devices::Device* passed_over = nullptr;  // Where a kernel is missing.

  bool is_fallback() const {
    return reason == Reason::missing_device || reason == Reason::missing_kernel;
  }
};

PlacementChoice choose(const op::Signature& signature, const op::RangeOperands& ranges) {
  const DevicePtr* scoped = devices::scope_device();
  if (!ranges.empty() && !(scoped != nullptr && ranges[0].range.block->is_in((*scoped)->space()))) {
    return {&ranges[0].range.block->components()[0]->device(), Reason::variable};
  }
  const auto& registry = op::Registry::instance();
  if (scoped != nullptr) {
    if (!settings.soft_placement.load(std::memory_order_relaxed)) return {scoped, Reason::scope};
    if (devices::scope_device_is_missing()) return {scoped, Reason::missing_device};
    const DevicePtr& host = devices::host_device();
    if (registry.has_kernel(signature, **scoped) || !registry.has_kernel(signature, *host)) {
      return {scoped, Reason::scope};
    }
    return {&host, Reason::missing_kernel, scoped->get()};
  }
  const auto& order = devices::placement_order();
  if (order.size() == 1 || registry.has_kernel(signature, *order[0])) {
    return {&order[0], Reason::first};
  }
  for (const auto& device : order) {
    if (registry.has_kernel(signature, *device)) return {&device, Reason::skipped, order[0].get()};
  }
  return {&order[0], Reason::first};
}

/// Errors are about what is placed, as `describe` calls it.
template <class Describe>
PlacementChoice choose_for(const op::Signature& signature, const op::RangeOperands& ranges,
                           const Describe& describe) {
  PlacementChoice choice{};
  try {
    choice = choose(signature, ranges);
  } catch (const NotFound& error) {
    error.rethrow_within(describe());
  }
  return choice;
}

std::string text(const PlacementChoice& choice, const std::string& requested) {
  switch (choice.reason) {
    case Reason::scope:
      return "the scope names it";
    case Reason::variable:
      return "the variable lives there";
    case Reason::first:
      return "first device";
    case Reason::missing_device:
      return fmt::format("{} does not exist", requested);
    case Reason::missing_kernel:
    case Reason::skipped:
      return fmt::format("no kernel on {}", choice.passed_over->name());
  }
  return "";
}

void report(const std::string& op_name, std::string op, const PlacementChoice& choice) {
  const std::string requested = current_device_scope().str();
  Placement placement{std::move(op), requested, (*choice.device)->name(), text(choice, requested)};
  if (choice.is_fallback()) devices::report_fallback(op_name, placement);
  if (settings.log_placement) devices::report_placement(std::move(placement));
}

bool is_reported(const PlacementChoice& choice) {
  return settings.log_placement.load(std::memory_order_relaxed) || choice.is_fallback();
}

/// "read_variable() of float32[2]": the signature with the variables that it uses.
std::string described(const op::Signature& signature) {
  return signature.str() + (signature.ranges.empty() ? "" : " of " + listed(signature.ranges));
}

/// The assignment that a new variable starts with: who can run it can hold the variable.
op::Signature first_assign(const TensorType& type) {
  static const op::OpDef& assign = op::find_op("assign");
  op::Signature signature;
  signature.op = &assign;
  signature.inputs = {type};
  signature.ranges = {type};
  return signature;
}

}  // namespace

const DevicePtr& place(const op::Signature& signature, const op::RangeOperands& ranges) {
  const PlacementChoice choice = choose_for(signature, ranges, [&] { return signature.str(); });
  if (is_reported(choice)) report(signature.op->name, described(signature), choice);
  return *choice.device;
}

bool is_placed_by_operands() {
  if (settings.log_placement.load(std::memory_order_relaxed)) return false;
  try {
    return devices::scope_device() == nullptr;
  } catch (const NotFound&) {
    return false;  // place() throws it again and names the op.
  }
}

}  // namespace tandem::runtime

namespace tandem {

devices::DevicePtr variable_device(const std::string& name, DType dtype, const Shape& shape) {
  using namespace runtime;
  const TensorType type{dtype, shape};
  const std::string what = fmt::format("variable '{}' {}", name, type.str());
  const op::Signature assign = first_assign(type);
  const PlacementChoice choice = choose_for(assign, {}, [&] { return std::string(what); });
  const auto& registry = op::Registry::instance();
  if (!registry.has_kernel(assign, **choice.device)) {
    throw registry.missing_kernel(what, assign.op->name, **choice.device);
  }
  if (is_reported(choice)) report("variable", what, choice);
  return *choice.device;
}

Tensor copy_to_device(const Tensor& tensor, std::string_view name) {
  static const op::OpDef& reshape = op::find_op("reshape");
  const devices::ExplicitCopy copy;
  const auto scope = device(name);
  return op::apply_one(reshape, {tensor}, {{"shape", tensor.shape()}});
}

}  // namespace tandem
