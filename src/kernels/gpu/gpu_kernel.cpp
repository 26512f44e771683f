#include "kernels/gpu/gpu_kernel.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <memory>

#include "core/named_error.h"
#include "device/gpu/dialect.h"
#include "kernels/gpu/library_call.h"
#include "op/cost.h"

namespace tandem::kernels::gpu {
namespace {

using devices::gpu::CommandLabel;
using devices::gpu::GpuQueue;
using devices::gpu::Grid;
using devices::gpu::KernelArgument;
using devices::gpu::Location;
using devices::gpu::Stream;

/// What the calls of the op that is being run on this thread are called.
thread_local CommandLabel label;

/// Gives what a kernel issues its name.
class Named final : public op::Executable {
 public:
  Named(ExecutablePtr inner, const Signature& signature)
      : inner_(std::move(inner)), text_(signature.str()), op_(*signature.op) {
    const op::Cost cost = op::cost_of(signature);
    label_ = {op_.name.c_str(),
              op_.is_collective ? profile::Activity::reduce : profile::Activity::compute,
              cost.flops, cost.bytes};
  }

  void run(const Launch& launch) const override {
    label = label_;
    label.replica = launch.replica;
    try {
      inner_->run(launch);
    } catch (const Error& error) {
      error.rethrow_within(text_);
    }
  }
  size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  const char* provider() const override { return inner_->provider(); }

 private:
  const ExecutablePtr inner_;
  const std::string text_;
  const op::OpDef& op_;
  CommandLabel label_;
};

}  // namespace

const char* type_name(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float";
    case DType::float64:
      return "double";
    case DType::int32:
      return "i32";
    case DType::int64:
      return "i64";
    case DType::float16:
    case DType::bfloat16:
    case DType::uint16:
      return "u16";
    case DType::uint8:
    case DType::boolean:
      return "u8";
    case DType::int8:
      return "i8";
    case DType::int16:
      return "i16";
    case DType::uint32:
      return "u32";
    case DType::uint64:
      return "u64";
  }
  return "float";
}

Words types_of(DType dtype) { return {{"T", type_name(dtype)}, {"C", type_name(dtype)}}; }

Words word_of(DType dtype) {
  const size_t size = size_of(dtype);
  return {{"T", size == 1 ? "u8" : size == 2 ? "u16" : size == 4 ? "u32" : "u64"}};
}

GpuQueue& queue_of(const Device& device) { return dynamic_cast<GpuQueue&>(device.queue()); }

Kernel::Kernel(const Device& device, const KernelText& text)
    : compiled_(queue_of(device).compiler().add(text)),
      description_(&queue_of(device).compiler().description()),
      is_serial_(queue_of(device).compiler().form() == KernelForm::serial) {}

FaultNumber::FaultNumber(devices::gpu::FaultReport report)
    : number_(devices::gpu::FaultReports::instance().add(std::move(report))) {}

FaultNumber::~FaultNumber() { devices::gpu::FaultReports::instance().remove(number_); }

Call::Call(const Launch& launch, const Kernel& kernel)
    : launch_(launch), kernel_(kernel), queue_(static_cast<GpuQueue&>(*launch.queue)) {}

Call& Call::add(const KernelArgument& argument) {
  assert(count_ < kMostArguments);
  std::construct_at(&arguments_[count_++], argument);
  return *this;
}

Call& Call::add(const Location& location) {
  return add(KernelArgument{.memory = location.memory})
      .add(KernelArgument{.bits = location.offset});
}

Call& Call::memory(const void* address) { return add(queue_.memory().locate(address)); }
Call& Call::in(int i) { return memory(launch_.in<void>(i)); }
Call& Call::out(int i) { return memory(launch_.out<void>(i)); }
Call& Call::range(int i) { return memory(launch_.range<void>(i)); }
Call& Call::workspace(size_t offset) { return memory(launch_.workspace<char>() + offset); }
Call& Call::step() { return memory(launch_.device_step); }
Call& Call::whole(int64_t number) {
  return add(KernelArgument{.bits = static_cast<uint64_t>(number)});
}
Call& Call::real(double number) {
  return add(KernelArgument{.bits = std::bit_cast<uint64_t>(number)});
}

Call& Call::wholes(const std::vector<int64_t>& numbers) {
  for (const int64_t number : numbers) whole(number);
  return *this;
}

Call& Call::fault(const FaultNumber& report) {
  add(queue_.timeline().fault_word()).whole(report.get());
  ticket_ = count_;
  may_find_fault_ = true;
  return whole(0);
}

Call& Call::guard() { return add(queue_.timeline().fault_word()); }

void Call::each(int64_t count) {
  if (count == 0) return;
  if (kernel_.is_serial()) {
    constexpr int64_t kWorthAnItem = 1024;
    const int64_t most = 4 * int64_t{kernel_.device().units};
    return issue({std::clamp<int64_t>(count / kWorthAnItem, 1, most), 1});
  }
  constexpr int64_t kMostPerUnit = 16;
  const int64_t most = kMostPerUnit * kernel_.device().units;
  constexpr int64_t kSize = devices::gpu::kGroupSize;
  issue({std::clamp<int64_t>((count + kSize - 1) / kSize, 1, std::max<int64_t>(most, 64)),
         devices::gpu::kGroupSize});
}

void Call::rows(int64_t rows, int64_t columns) {
  if (rows == 0) return;
  if (kernel_.is_serial()) {
    constexpr int64_t kWorthAnItem = 1024;
    const int64_t most = std::min(rows, 4 * int64_t{kernel_.device().units});
    return issue({std::clamp<int64_t>(rows * columns / kWorthAnItem, 1, most), 1});
  }
  constexpr int64_t kMostPerUnit = 16;
  issue({std::min(rows, std::max<int64_t>(kMostPerUnit * kernel_.device().units, 64)),
         devices::gpu::kGroupSize});
}

void Call::groups(int64_t count, int size) {
  if (count > 0) issue({count, size});
}

void Call::issue(const Grid& grid) {
  const devices::gpu::Kernel& kernel = queue_.compiler().get(kernel_.compiled());
  queue_.timeline().issue(label, {.may_find_fault = may_find_fault_},
                          [&](Stream& stream, uint64_t ticket) {
                            if (may_find_fault_) arguments_[ticket_].bits = ticket;
                            stream.launch(kernel, grid, {arguments_, count_});
                          });
}

void issue_library_call(const Launch& launch, const std::function<void(Stream&)>& call) {
  auto& queue = static_cast<GpuQueue&>(*launch.queue);
  queue.timeline().issue(label, {}, [&](Stream& stream, uint64_t) { call(stream); });
}

void add_kernel(op::BackendKernels& kernels, std::string_view op, std::vector<DType> dtypes,
                std::function<ExecutablePtr(const Signature&, const Device&)> prepare) {
  kernels.add(op, std::move(dtypes),
              [prepare = std::move(prepare)](const Signature& signature, const Device& device,
                                             int) -> ExecutablePtr {
                return std::make_shared<Named>(prepare(signature, device), signature);
              });
}

}  // namespace tandem::kernels::gpu
