/// Turns the texts of kernels into kernels of a device. Texts wait until the first of them is
/// launched, and are then compiled together: a compiler needs much longer for many small programs
/// than for a large one. What was compiled once is kept, in memory and on disk. Where the
/// environment variable TANDEM_KERNEL_TEXTS names a folder, each text is written there to look at.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/gpu/driver.h"

namespace tandem::devices::gpu {

/// A kernel's text in the dialect (device/gpu/dialect.h).
struct KernelText {
  /// The kernel is called by it in profiles and errors: the op's name, as a rule.
  std::string name;
  /// Words that the body uses: {"T", "float"}.
  std::vector<std::pair<std::string, std::string>> words{};
  /// Functions that it uses. They stand once in a program, however many kernels use them.
  std::vector<std::string_view> functions{};
  /// `KERNEL NAME(MEMORY(0), ..) { .. }`
  std::string body;
};

/// A kernel, as soon as somebody needs it.
class CompiledKernel : public std::enable_shared_from_this<CompiledKernel> {
 public:
  const std::string& name() const { return name_; }

 private:
  friend class Compiler;

  void set(std::shared_ptr<Kernel> kernel) {
    kernel_ = std::move(kernel);
    compiled_.store(kernel_.get(), std::memory_order_release);
  }

  std::string name_;     // As the program has it, and no other kernel.
  std::string program_;  // The words and the body.
  std::vector<std::string_view> functions_;
  std::shared_ptr<Kernel> kernel_;                 // Null until it is compiled.
  std::atomic<const Kernel*> compiled_ = nullptr;  // The same, for who has no lock.
};
using CompiledKernelPtr = std::shared_ptr<CompiledKernel>;

class Compiler {
 public:
  Compiler(std::string device, DriverPtr driver, KernelForm form);

  KernelForm form() const { return form_; }
  const Description& description() const { return driver_->description(); }

  /// The same text is the same kernel. Cheap: it is compiled by the first get().
  CompiledKernelPtr add(const KernelText& text);

  /// Compiles whatever waits, if the kernel is among it. Throws InvalidArgument with the compiler's
  /// log.
  const Kernel& get(CompiledKernel& kernel) {
    const Kernel* const known = kernel.compiled_.load(std::memory_order_acquire);
    return known != nullptr ? *known : compile(kernel);
  }

 private:
  const Kernel& compile(CompiledKernel& kernel);
  static void write_text(const CompiledKernel& kernel);
  void compile_pending();
  std::string program_of(const std::vector<CompiledKernelPtr>& kernels) const;
  std::shared_ptr<Module> module_of(const std::string& program, size_t kernels);

  const std::string device_;
  const DriverPtr driver_;
  const KernelForm form_;
  mutable std::mutex mutex_;
  std::map<std::string, CompiledKernelPtr> kernels_;  // By text.
  std::vector<CompiledKernelPtr> pending_;
};

/// The compiler for a device of `driver`. That of a permanent driver is kept: where devices are
/// made again, they find their kernels.
std::shared_ptr<Compiler> compiler_of(const std::string& device, const DriverPtr& driver,
                                      KernelForm form);

}  // namespace tandem::devices::gpu
