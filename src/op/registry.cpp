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
void register_kernels(op::Registry& registry);
}
namespace tandem::collective {
void register_collectives(op::Registry& registry);
}

namespace tandem::op {
namespace {

/// For a device whose addresses are not those that its kernels see.
class TranslatingExecutable final : public Executable {
 public:
  TranslatingExecutable(ExecutablePtr inner, size_t operands, void* (*kernel_address)(const void*))
      : inner_(std::move(inner)), kernel_address_(kernel_address), indices_(operands) {
    for (size_t i = 0; i < operands; ++i) indices_[i] = static_cast<int>(i);
  }
  void run(const Launch& launch) const override {
    std::vector<void*> slots(indices_.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      slots[i] = kernel_address_(launch.slots[launch.operands[i]]);
    }
    Launch real = launch;
    real.slots = slots.data();
    real.operands = indices_.data();
    real.workspaces = kernel_address_(launch.workspaces);
    inner_->run(real);
  }
  size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  int phases() const override { return inner_->phases(); }
  const char* provider() const override { return inner_->provider(); }

 private:
  const ExecutablePtr inner_;
  void* (*const kernel_address_)(const void*);
  std::vector<int> indices_;
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
    kernels::cpu::register_kernels(*filled);
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

void Registry::add_kernel(std::string_view op_name, std::string_view backend,
                          std::vector<DType> dtypes, PrepareFn prepare) {
  op(op_name);  // A kernel for an op that does not exist is a mistake.
  kernels_[{std::string(op_name), std::string(backend)}].push_back(
      {std::move(dtypes), std::move(prepare)});
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
  const auto found = kernels_.find({signature.op->name, device.kernels()});
  if (found == kernels_.end()) return nullptr;
  const auto kernel = std::ranges::find_if(found->second, [&](const Kernel& candidate) {
    return std::ranges::find(candidate.dtypes, dtype) != candidate.dtypes.end();
  });
  return kernel == found->second.end() ? nullptr : &*kernel;
}

bool Registry::has_kernel(const Signature& signature, const devices::Device& device) const {
  return find(signature, device) != nullptr;
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
  ExecutablePtr executable = kernel->prepare(signature, parts);
  if (device.kernel_address() == nullptr) return executable;
  const size_t operands =
      signature.inputs.size() + signature.outputs.size() + signature.ranges.size();
  return std::make_shared<TranslatingExecutable>(std::move(executable), operands,
                                                 device.kernel_address());
}

std::string Registry::kernels_of(const std::string& op_name) const {
  std::string text;
  for (const auto& [key, kernels] : kernels_) {
    if (key.first != op_name) continue;
    for (const Kernel& kernel : kernels) {
      for (DType dtype : kernel.dtypes) {
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key.second, name_of(dtype));
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
