/// All ops and all kernels, filled by ordinary calls: the ops when the first one is looked up, the
/// kernels of a backend when somebody asks for one of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
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
  BackendKernels(const Registry& registry, std::string_view backend)
      : registry_(registry), backend_(backend) {}

  /// As Registry::add_kernel.
  void add(std::string_view op, std::vector<DType> dtypes, PrepareFn prepare);

  /// Takes over each kernel that `other` has: what `wrap` makes of it.
  using Wrap = std::function<PrepareFn(const PrepareFn& prepare)>;
  void add_those_of(std::string_view other, const Wrap& wrap);

 private:
  const Registry& registry_;
  const std::string_view backend_;
};

class Registry {
 public:
  static const Registry& instance();

  /// `fill` is called when somebody asks for a kernel of the backend; there may be several.
  using FillFn = void (*)(BackendKernels&);
  void add_backend(const std::string& name, FillFn fill);

  /// A kernel of `op` on `backend` for calls whose first typed operand (input, else output, else
  /// range) has one of `dtypes`.
  void add_kernel(std::string_view op, std::string_view backend, std::vector<DType> dtypes,
                  PrepareFn prepare) const;

  /// Throws InvalidArgument when the op has neither a gradient nor the mark that it has none, or
  /// both.
  void add(OpDef op);

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

  /// The kernels of one backend.
  struct Backend {
    std::vector<FillFn> fill;
    std::once_flag is_filled;
    std::map<std::string, Kernels, std::less<>> kernels;  // By op.
  };
  Backend* backend(std::string_view name) const;

  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops_;
  mutable std::map<std::string, Backend, std::less<>> backends_;
};

inline const OpDef& find_op(std::string_view name) { return Registry::instance().op(name); }

}  // namespace tandem::op
