/// All ops and all kernels, filled once, by ordinary calls, when the first op is looked up.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/logical_device.h"
#include "op/kernel.h"
#include "tandem/error.h"

namespace tandem::op {

class Registry;

/// Where a backend puts its kernels.
class BackendKernels {
 public:
  BackendKernels(Registry& registry, std::string backend)
      : registry_(registry), backend_(std::move(backend)) {}

  /// As Registry::add_kernel.
  void add(std::string_view op, std::vector<DType> dtypes, PrepareFn prepare);

  /// Takes over each kernel that `other` has by now: what `wrap` makes of it.
  using Wrap = std::function<PrepareFn(const PrepareFn& prepare)>;
  void add_those_of(std::string_view other, const Wrap& wrap);

 private:
  Registry& registry_;
  const std::string backend_;
};

class Registry {
 public:
  static const Registry& instance();

  /// Throws InvalidArgument when the op has neither a gradient nor the mark that it has none, or
  /// both.
  void add(OpDef op);

  /// A kernel of `op` on `backend` for calls whose first typed operand (input, else output, else
  /// range) has one of `dtypes`.
  void add_kernel(std::string_view op, std::string_view backend, std::vector<DType> dtypes,
                  PrepareFn prepare);

  /// The names of the backends that have kernels.
  std::vector<std::string> backends() const;

  /// Throws NotFound. Ask once and keep the reference: it is a look-up by name.
  const OpDef& op(std::string_view name) const;

  bool has_kernel(const Signature& signature, const devices::Device& device) const;
  bool has_kernel(std::string_view op, std::string_view backend, DType dtype) const;

  /// What to throw where `what`, a call of `op` or a use of it, has no kernel on `device`: it names
  /// the device, who asked for it, the kernels and the devices that exist.
  NotFound missing_kernel(const std::string& what, const std::string& op,
                          const devices::Device& device) const;

  /// Throws missing_kernel().
  ExecutablePtr prepare(const Signature& signature, const devices::Device& device, int parts) const;

  std::vector<std::string> op_names() const;

 private:
  friend class BackendKernels;

  struct Kernel {
    std::vector<DType> dtypes;
    PrepareFn prepare;
  };
  using Kernels = std::vector<Kernel>;

  const Kernel* find(const Signature& signature, const devices::Device& device) const;
  const Kernel* find(std::string_view op, std::string_view backend, DType dtype) const;
  std::string kernels_of(const std::string& op) const;

  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops_;
  std::map<std::pair<std::string, std::string>, Kernels> kernels_;  // By op and backend.
};

inline const OpDef& find_op(std::string_view name) { return Registry::instance().op(name); }

}  // namespace tandem::op
