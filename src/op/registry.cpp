#include "op/registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "tandem/device.h"
#include "tandem/error.h"

// The one place where the order of the folders is turned round: what lies below is named here to be
// registered, by a call and not by static initialisation.
namespace tandem::ops {
void register_ops(op::Registry& registry);
}
namespace tandem::kernels::cpu {
void register_kernels(op::BackendKernels& kernels);
}
namespace tandem::kernels::gpu {
void register_kernels(op::BackendKernels& kernels);
}
namespace tandem::kernels::test {
void register_kernels(op::BackendKernels& kernels);
}
namespace tandem::collective::local {
void register_kernels(op::BackendKernels& kernels);
}
namespace tandem::collective {
void register_collectives(op::Registry& registry);
}

namespace tandem::op {
namespace {

/// Every backend that has kernels.
constexpr std::pair<const char*, Registry::FillFn> kBackends[] = {
    {"cpu", kernels::cpu::register_kernels},
    {"cpu", collective::local::register_kernels},
    {"gpu", kernels::gpu::register_kernels},
    {"test", kernels::test::register_kernels},
};

DType deciding_dtype(const Signature& signature) {
  for (const TensorTypes* types : {&signature.inputs, &signature.outputs, &signature.ranges}) {
    if (!types->empty()) return types->front().dtype;
  }
  return DType::float32;
}

}  // namespace

const Registry& Registry::instance() {
  static const Registry* registry = [] {
    auto* filled = new Registry;
    ops::register_ops(*filled);
    collective::register_collectives(*filled);
    for (const auto& [backend, fill] : kBackends) filled->add_backend(backend, fill);
    return filled;
  }();
  return *registry;
}

void Registry::add(OpDef op) {
  if (static_cast<bool>(op.gradient) == op.no_gradient) {
    throw InvalidArgument(fmt::format("op '{}': set either a gradient or no_gradient, not {}",
                                      op.name, op.no_gradient ? "both" : "neither"));
  }
  op.id = static_cast<int>(ops_.size());
  const std::string name = op.name;
  if (!ops_.emplace(name, std::make_unique<OpDef>(std::move(op))).second) {
    throw InvalidArgument(fmt::format("op '{}' is registered twice", name));
  }
}

void Registry::add_backend(const std::string& name, FillFn fill) {
  backends_[name].fill.push_back(fill);
}

void Registry::add_kernel(std::string_view op_name, std::string_view backend,
                          std::vector<DType> dtypes, PrepareFn prepare) const {
  op(op_name);  // A kernel for an op that does not exist is a mistake.
  backends_[std::string(backend)].kernels[std::string(op_name)].push_back(
      {std::move(dtypes), std::move(prepare)});
}

/// Null where there is no such backend.
Registry::Backend* Registry::backend(std::string_view name) const {
  const auto found = backends_.find(name);
  if (found == backends_.end()) return nullptr;
  std::call_once(found->second.is_filled, [&] {
    BackendKernels kernels(*this, name);
    for (const FillFn fill : found->second.fill) fill(kernels);
  });
  return &found->second;
}

void BackendKernels::add(std::string_view op, std::vector<DType> dtypes, PrepareFn prepare) {
  registry_.add_kernel(op, backend_, std::move(dtypes), std::move(prepare));
}

void BackendKernels::add_those_of(std::string_view other, const Wrap& wrap) {
  for (const auto& [op, kernels] : registry_.backend(other)->kernels) {
    for (const Registry::Kernel& kernel : kernels) add(op, kernel.dtypes, wrap(kernel.prepare));
  }
}

std::vector<std::string> Registry::backends() const {
  std::vector<std::string> names;
  for (const auto& [name, backend] : backends_) names.push_back(name);
  return names;
}

const OpDef& Registry::op(std::string_view name) const {
  const auto found = ops_.find(name);
  if (found == ops_.end()) throw NotFound(fmt::format("op '{}' does not exist", name));
  return *found->second;
}

const Registry::Kernel* Registry::find(const Signature& signature,
                                       const devices::Device& device) const {
  const DType dtype = deciding_dtype(signature);
  if (device.lacks_kernel(signature.op->name, dtype)) return nullptr;
  return find(signature.op->name, device.kernels(), dtype);
}

const Registry::Kernel* Registry::find(std::string_view op, std::string_view backend,
                                       DType dtype) const {
  const Backend* from = this->backend(backend);
  if (from == nullptr) return nullptr;
  const auto found = from->kernels.find(op);
  if (found == from->kernels.end()) return nullptr;
  const auto kernel = std::ranges::find_if(found->second, [&](const Kernel& candidate) {
    return std::ranges::find(candidate.dtypes, dtype) != candidate.dtypes.end();
  });
  return kernel == found->second.end() ? nullptr : &*kernel;
}

bool Registry::has_kernel(const Signature& signature, const devices::Device& device) const {
  return find(signature, device) != nullptr;
}

bool Registry::has_kernel(std::string_view op, std::string_view backend, DType dtype) const {
  return find(op, backend, dtype) != nullptr;
}

NotFound Registry::missing_kernel(const std::string& what, const std::string& op,
                                  const devices::Device& device) const {
  const std::string scope = current_device_scope().str();
  return NotFound(
      fmt::format("{}: no kernel on {} (backend {}){}; kernels exist for {}; the devices are {}",
                  what, device.name(), device.backend(),
                  scope.empty() ? "" : fmt::format(", asked for by the scope '{}'", scope),
                  kernels_of(op), devices::device_names()));
}

ExecutablePtr Registry::prepare(const Signature& signature, const devices::Device& device,
                                int parts) const {
  const Kernel* kernel = find(signature, device);
  if (kernel == nullptr) throw missing_kernel(signature.str(), signature.op->name, device);
  return kernel->prepare(signature, device, parts);
}

std::string Registry::kernels_of(const std::string& op_name) const {
  std::string text;
  for (const auto& [name, unused] : backends_) {
    const auto& kernels = backend(name)->kernels;
    const auto found = kernels.find(op_name);
    if (found == kernels.end()) continue;
    for (const Kernel& kernel : found->second) {
      for (DType dtype : kernel.dtypes) {
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, name_of(dtype));
      }
    }
  }
  return text.empty() ? "no backend" : text;
}

std::vector<std::string> Registry::op_names() const {
  std::vector<std::string> names;
  for (const auto& [name, op] : ops_) names.push_back(name);
  return names;
}

}  // namespace tandem::op
