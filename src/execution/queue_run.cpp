#include "execution/queue_run.h"

#include <fmt/format.h>

#include "core/compute_scope.h"
#include "execution/instruction_hook.h"
#include "tandem/error.h"

namespace tandem::graph {

std::exception_ptr named_error(const std::string& name) {
  std::exception_ptr result = std::current_exception();
  if (name.empty()) return result;
  try {
    try {
      std::rethrow_exception(result);
    } catch (const Error& error) {
      error.rethrow_within(name);
    } catch (const std::exception& error) {
      throw Unavailable(fmt::format("{}: {}", name, error.what()));
    }
  } catch (...) {
    result = std::current_exception();
  }
  return result;
}

void Failure::keep(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  happened_.store(true, std::memory_order_release);
}

std::exception_ptr Failure::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

QueueRun::QueueRun(std::shared_ptr<const void> owner, const Program& program,
                   const BoundReplica& replica, std::string name, std::shared_ptr<Failure> failure)
    : owner_(std::move(owner)),
      program_(program),
      device_(replica.device),
      name_(std::move(name)),
      failure_(std::move(failure)),
      step_(replica.step),
      plan_(replica.current->plan),
      arena_(replica.arena),
      arguments_(replica.arguments),
      results_(replica.current->results),
      slots_(replica.current->slots) {}

void QueueRun::submit(size_t i, const Share& share) {
  op::Launch launch = launch_of(program_, *plan_, i, slots_.data(), step_, *arena_);
  launch.part = share.rank;
  launch.parts = share.of;
  device_->queue().submit([self = shared_from_this(), launch, i] { self->run(i, launch); });
}

void QueueRun::run(size_t i, op::Launch launch) const {
  if (failure_->happened()) return;
  try {
    const Instruction& instruction = program_.instructions()[i];
    if (const InstructionHook* hook = instruction_hook()) {
      (*hook)(step_.replica, instruction.node.op().name);
      if (failure_->happened()) return;  // It may have taken long.
    }
    const core::ComputeScope computing;
    if (profile::is_recording()) {
      profile::name_row(device_->name());
      profile::set_replica(step_.replica);
    }
    const profile::Span span = span_of(instruction, plan_->costs[i], 1);
    plan_->executables[i]->play(launch, {.first = launch.part});
  } catch (...) {
    failure_->keep(named_error(name_));
    std::rethrow_exception(failure_->error());
  }
}

}  // namespace tandem::graph
