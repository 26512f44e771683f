/// How a kernel for GPUs is written: a text in the dialect (device/gpu/dialect.h), compiled for the
/// device that it is prepared for, and a run that issues calls of it.
///
///   ExecutablePtr prepare_relu(const Signature& s, const Device& device) {
///     const Kernel kernel(device, {.name = "relu", .words = types_of(s), .body = kRelu});
///     const int64_t count = s.outputs[0].shape.count();
///     return op::executable([=](const Launch& launch) {
///       Call(launch, kernel).in(0).out(0).whole(count).each(count);
///     });
///   }
///
/// A call passes its arguments in the order of the kernel's parameters; the last word says how many
/// items share the work. Shapes and attributes are arguments, not part of a text, so that few
/// programs are compiled.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "device/gpu/gpu_queue.h"
#include "kernels/part.h"
#include "op/registry.h"

namespace tandem::kernels::gpu {

using devices::Device;
using devices::gpu::KernelForm;
using devices::gpu::KernelText;
using op::ExecutablePtr;
using op::Launch;
using op::Signature;
using Words = std::vector<std::pair<std::string, std::string>>;

/// What the dialect calls elements of `dtype`: "float", "i64".
const char* type_name(DType dtype);

/// T, how the elements of `dtype` are stored, and C, how they are computed with.
Words types_of(DType dtype);

/// T, a whole number as large as an element of `dtype`, for kernels that only move elements.
Words word_of(DType dtype);

/// The number of elements; the signature that a kernel is prepared for is concrete.
inline int64_t count_of(const op::TensorType& type) { return type.shape.total_extent(); }

/// A kernel of a device.
class Kernel {
 public:
  Kernel(const Device& device, const KernelText& text);

  devices::gpu::CompiledKernel& compiled() const { return *compiled_; }
  const devices::gpu::Description& device() const { return *description_; }
  bool is_serial() const { return is_serial_; }

 private:
  devices::gpu::CompiledKernelPtr compiled_;
  const devices::gpu::Description* description_;
  bool is_serial_;
};

/// The error that a kernel finds, for as long as its executable lives.
class FaultNumber {
 public:
  explicit FaultNumber(devices::gpu::FaultReport report);
  ~FaultNumber();
  FaultNumber(const FaultNumber&) = delete;
  FaultNumber& operator=(const FaultNumber&) = delete;

  uint32_t get() const { return number_; }

 private:
  const uint32_t number_;
};
using FaultNumberPtr = std::shared_ptr<const FaultNumber>;

/// One call of a kernel. It is issued by each(), rows() or groups(), in order with the others of
/// its queue.
class Call {
 public:
  /// Memory counts twice. They are 1024 bytes, which every OpenCL device takes.
  static constexpr size_t kMostArguments = 128;

  Call(const Launch& launch, const Kernel& kernel);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // MEMORY(k): operands of the op, and the workspace from a byte on.
  Call& in(int i);
  Call& out(int i);
  Call& range(int i);
  Call& workspace(size_t offset = 0);
  Call& memory(const void* address);

  // i64 and double parameters.
  Call& whole(int64_t number);
  Call& real(double number);
  Call& wholes(const std::vector<int64_t>& numbers);

  /// MEMORY(k): the step's scalars (op::StepScalars), as they are on the device.
  Call& step();

  /// MEMORY(k), i64 report, i64 ticket: the first arguments of report_fault().
  Call& fault(const FaultNumber& report);

  /// MEMORY(k): the fault word. The kernel does nothing while its first u32 is set.
  Call& guard();

  /// Items share `count` elements: EACH.
  void each(int64_t count);

  /// Groups share `rows` rows of `columns` elements: ROWS and ALONG.
  void rows(int64_t rows, int64_t columns);

  /// As many groups of so many items.
  void groups(int64_t count, int size);

 private:
  Call& add(const devices::gpu::KernelArgument& argument);
  Call& add(const devices::gpu::Location& location);
  void issue(const devices::gpu::Grid& grid);

  const Launch& launch_;
  const Kernel& kernel_;
  devices::gpu::GpuQueue& queue_;
  union {  // Not initialized: most calls have a few.
    devices::gpu::KernelArgument arguments_[kMostArguments];
  };
  size_t count_ = 0;
  size_t ticket_ = 0;  // Which argument is the ticket, if one is.
  bool may_find_fault_ = false;
};

/// The queue of a device with this folder's kernels.
devices::gpu::GpuQueue& queue_of(const Device& device);

/// The form in which kernels are written for the device.
inline bool is_serial(const Device& device) {
  return queue_of(device).compiler().form() == KernelForm::serial;
}

/// Adds a kernel. What it issues is called by the op's name in profiles and errors.
void add_kernel(op::BackendKernels& kernels, std::string_view op, std::vector<DType> dtypes,
                std::function<ExecutablePtr(const Signature&, const Device&)> prepare);

}  // namespace tandem::kernels::gpu
