/// The kernels of test devices: the CPU's, run late. As on a GPU, a call takes its arguments when
/// it is issued, and the command finds the step's scalars in the device's memory when it runs.
#include <numeric>

#include "core/compute_scope.h"
#include "core/named_error.h"
#include "device/test/late_queue.h"
#include "op/cost.h"
#include "op/instruction_hook.h"
#include "op/registry.h"
#include "profile/span.h"

namespace tandem::kernels::test {
namespace {

using devices::test::LateQueue;

/// What does not change from call to call.
struct Kernel {
  op::ExecutablePtr inner;
  const op::OpDef* op;
  op::Cost cost;
};

/// One issued call.
class Command {
 public:
  Command(std::shared_ptr<const Kernel> kernel, const op::Launch& launch, size_t operands,
          const devices::MemorySpace& space, const std::string& row)
      : kernel_(std::move(kernel)),
        launch_(launch),
        addresses_(operands),
        operands_(operands),
        row_(row) {
    const auto real = [&](const void* address) {
      return address == nullptr ? nullptr : devices::test::real_address(space, address);
    };
    for (size_t i = 0; i < operands; ++i)
      addresses_[i] = real(launch.addresses[launch.operands[i]]);
    std::iota(operands_.begin(), operands_.end(), 0);
    launch_.workspaces = real(launch.workspaces);
    step_block_ = static_cast<const op::StepScalars*>(real(launch.device_step));
    if (launch.replica_name != nullptr) replica_name_ = *launch.replica_name;
  }

  void run() const {
    try {
      op::Launch launch = launch_;
      const op::StepScalars step = step_block_ == nullptr ? op::StepScalars() : *step_block_;
      launch.addresses = addresses_.data();
      launch.operands = operands_.data();
      launch.step = &step;
      call_hook(step);
      if (profile::is_profiling()) {
        profile::name_row(row_);
        profile::set_replica(step.replica);
      }
      const profile::Activity kind =
          kernel_->op->is_collective ? profile::Activity::reduce : profile::Activity::compute;
      const profile::Span computing(kernel_->op->name.c_str(), kind, kernel_->cost.flops,
                                    kernel_->cost.bytes);
      const core::ComputeScope scope;
      kernel_->inner->run(launch);
    } catch (...) {
      std::rethrow_exception(core::named_error(replica_name_));
    }
  }

 private:
  void call_hook(const op::StepScalars& step) const {
    if (launch_.replica_name == nullptr) return;
    if (const op::InstructionHook* hook = op::instruction_hook()) {
      (*hook)(step.replica, kernel_->op->name);
    }
  }

  const std::shared_ptr<const Kernel> kernel_;
  op::Launch launch_;
  std::vector<void*> addresses_;
  std::vector<int> operands_;
  const std::string row_;
  const op::StepScalars* step_block_ = nullptr;
  std::string replica_name_;
};

class LateExecutable final : public op::Executable {
 public:
  LateExecutable(op::ExecutablePtr inner, const op::Signature& signature,
                 const devices::Device& device)
      : kernel_(std::make_shared<Kernel>(
            Kernel{std::move(inner), signature.op, op::cost_of(signature)})),
        operands_(signature.inputs.size() + signature.outputs.size() + signature.ranges.size()),
        space_(device.space()) {}

  void run(const op::Launch& launch) const override {
    auto& queue = dynamic_cast<LateQueue&>(*launch.queue);
    auto command =
        std::make_shared<Command>(kernel_, launch, operands_, space_, queue.timeline().row());
    queue.timeline().issue([command = std::move(command)] { command->run(); },
                           kernel_->op->writes_ranges);
  }
  size_t workspace_bytes() const override { return kernel_->inner->workspace_bytes(); }
  int phases() const override { return kernel_->inner->phases(); }
  const char* provider() const override { return kernel_->inner->provider(); }

 private:
  const std::shared_ptr<const Kernel> kernel_;
  const size_t operands_;
  const devices::MemorySpace& space_;
};

}  // namespace

void register_kernels(op::BackendKernels& kernels) {
  kernels.add_those_of("cpu", [](const op::PrepareFn& prepare) -> op::PrepareFn {
    return [prepare](const op::Signature& signature, const devices::Device& device,
                     int parts) -> op::ExecutablePtr {
      return std::make_shared<LateExecutable>(prepare(signature, device, parts), signature, device);
    };
  });
}

}  // namespace tandem::kernels::test
