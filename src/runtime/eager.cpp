#include <fmt/format.h>

#include <array>

#include "core/alignment.h"
#include "core/background.h"
#include "core/compute_scope.h"
#include "op/apply.h"
#include "op/cost.h"
#include "profile/recorder.h"
#include "runtime/placement.h"
#include "runtime/prepared.h"
#include "runtime/random_calls.h"
#include "runtime/teams.h"
#include "tandem/error.h"

namespace tandem::runtime {
namespace {

/// Of all threads of a team with one squad.
class TeamMeeting final : public op::Meeting {
 public:
  explicit TeamMeeting(core::Host& host) : host_(host) {}
  void meet() const override { host_.team_barrier(); }

 private:
  core::Host& host_;
};

/// The operands of a call, bound: addresses, and what keeps them valid.
class BoundCall final : public core::Job {
 public:
  BoundCall(Prepared prepared, const Tensors& inputs, const Tensors& outputs,
            const op::RangeOperands& ranges, const devices::DevicePtr& device)
      : prepared_(std::move(prepared)), keep_(inputs), ranges_(ranges) {
    keep_.insert(keep_.end(), outputs.begin(), outputs.end());
    for (const Tensor& tensor : keep_) slots_.push_back(tensor.body()->data());
    for (const auto& operand : ranges) slots_.push_back(operand.range.data(*device));
    for (size_t i = 0; i < slots_.size(); ++i) operands_.push_back(static_cast<int>(i));
    launch_.slots = slots_.data();
    launch_.operands = operands_.data();
    launch_.inputs = static_cast<int>(inputs.size());
    launch_.outputs = static_cast<int>(outputs.size());
    launch_.parts = prepared_.parts;
    launch_.step = &step_;
    if (const size_t bytes = prepared_.executable->workspace_bytes(); bytes > 0) {
      launch_.workspace_stride = core::aligned(bytes);
      const size_t all = launch_.workspace_stride * static_cast<size_t>(prepared_.parts);
      workspaces_ =
          std::make_unique<Buffer>(device, all, DType::uint8, Shape{static_cast<int64_t>(all)});
      launch_.workspaces = workspaces_->data();
    }
  }

  void set_random(const op::RandomRun& random) { step_.random = random; }

  /// All of it, on this thread.
  void run() const { prepared_.executable->play(launch_, {.count = prepared_.parts}); }

  void play(core::Host& host) override {
    const TeamMeeting meeting(host);
    op::Launch launch = launch_;
    launch.meeting = &meeting;
    for (const core::Lot& lot : host.lots()) {
      prepared_.executable->play(launch, {lot.rank, lot.stride, lot.count});
    }
  }

 private:
  const Prepared prepared_;
  Tensors keep_;
  const op::RangeOperands ranges_;
  std::vector<void*> slots_;
  std::vector<int> operands_;
  std::unique_ptr<Buffer> workspaces_;
  op::StepScalars step_;
  op::Launch launch_;
};

/// A small call on a CPU: everything on the stack, on this thread.
void run_here(const Prepared& prepared, const Tensors& inputs, const Tensors& outputs,
              const op::RangeOperands& ranges, const devices::Device& device,
              const op::RandomRun& random) {
  constexpr size_t kMostOperands = 16;
  std::array<void*, kMostOperands> slots;
  static constexpr auto kOperands = [] {
    std::array<int, kMostOperands> indices{};
    for (size_t i = 0; i < kMostOperands; ++i) indices[i] = static_cast<int>(i);
    return indices;
  }();
  size_t count = 0;
  for (const Tensor& tensor : inputs) slots[count++] = tensor.body()->data();
  for (const Tensor& tensor : outputs) slots[count++] = tensor.body()->data();
  for (const auto& operand : ranges) slots[count++] = operand.range.data(device);

  op::StepScalars step;
  step.random = random;
  op::Launch launch;
  launch.slots = slots.data();
  launch.operands = kOperands.data();
  launch.inputs = static_cast<int>(inputs.size());
  launch.outputs = static_cast<int>(outputs.size());
  launch.step = &step;
  const core::ComputeScope computing;
  prepared.executable->run(launch);
}

class EagerInterpreter final : public op::Interpreter {
 public:
  Tensors interpret(const op::Signature& signature, const Tensors& inputs,
                    const op::RangeOperands& ranges) override {
    for (const op::TensorType& type : signature.outputs) check_shape(signature, type.shape);
    const devices::DevicePtr device = place(signature, ranges);
    Tensors local;
    local.reserve(inputs.size());
    for (const Tensor& input : inputs) {
      check_concrete(*input.body(), signature.op->name.c_str());
      local.push_back(input_on_device(input, device, signature.op->name.c_str()));
    }
    if (signature.op->is_view && local[0].body()->device() == device) {
      return {view_of(local[0], signature.outputs[0].shape)};
    }
    const Prepared prepared = PreparedCache::instance().get(signature, *device);
    std::vector<std::shared_ptr<TensorBody>> bodies;
    Tensors outputs;
    outputs.reserve(signature.outputs.size());
    for (const op::TensorType& type : signature.outputs) {
      bodies.push_back(new_body(device, type.dtype, type.shape));
      outputs.emplace_back(bodies.back());
    }
    const op::RandomRun random = signature.op->is_random ? next_random_run() : op::RandomRun{};

    const op::Cost cost = profile::is_recording() ? op::cost_of(signature) : op::Cost{};
    const auto span = [name = signature.op->name.c_str(), cost] {
      return profile::Span(name, profile::Kind::compute, cost.flops, cost.bytes);
    };
    const size_t operands = inputs.size() + outputs.size() + ranges.size();
    const bool immediate = device->queue().immediate();
    if (immediate && prepared.parts == 1 && operands <= 16 &&
        prepared.executable->workspace_bytes() == 0 && prepared.executable->phases() == 1) {
      const profile::Span computing = span();
      run_here(prepared, local, outputs, ranges, *device, random);
    } else {
      auto call = std::make_shared<BoundCall>(prepared, local, outputs, ranges, device);
      call->set_random(random);
      if (!immediate) {
        device->queue().submit([call, span, device] {
          if (profile::is_recording()) profile::name_row(device->name());
          const profile::Span computing = span();
          const core::ComputeScope scope;
          call->run();
        });
        for (auto& body : bodies) body->ready = device->queue().record();
      } else {
        const profile::Span computing = span();
        run_on_team(call, device, prepared.parts, signature.op->writes_ranges);
      }
    }
    copy_to_other_components(signature, ranges);
    return outputs;
  }

 private:
  static void check_shape(const op::Signature& signature, const Shape& shape) {
    if (!shape.is_symbolic()) return;
    throw InvalidArgument(fmt::format(
        "{}: {} has a negative size; only a traced function has a batch to take it from",
        signature.op->name, shape.str()));
  }

  /// A variable with components in several spaces is changed in one and copied to the others. A
  /// read is placed where the change was.
  void copy_to_other_components(const op::Signature& signature, const op::RangeOperands& ranges) {
    static const op::OpDef& read = op::find_op("read_variable");
    if (!signature.op->writes_ranges) return;
    for (const auto& operand : ranges) {
      if (operand.range.block->components().size() == 1) continue;
      const op::TensorType& type = operand.type;
      write_range(operand.range, interpret({&read, {}, {type}, {}, {type}}, {}, {operand})[0]);
    }
  }

  /// The same memory, which never changes, with another shape.
  static Tensor view_of(const Tensor& tensor, const Shape& shape) {
    auto body = std::make_shared<TensorBody>(*tensor.body());
    body->shape = shape;
    return Tensor(std::move(body));
  }

  static void run_on_team(const std::shared_ptr<BoundCall>& call, const devices::DevicePtr& device,
                          int parts, bool writes) {
    if (parts == 1 || core::Team::is_playing() || core::in_background()) {
      const core::ComputeScope computing;
      call->run();
    } else {
      team_slot({device})->run(call, {.writes_variables = writes});
    }
  }
};

}  // namespace
}  // namespace tandem::runtime

namespace tandem::op {

Interpreter& eager_interpreter() {
  static runtime::EagerInterpreter interpreter;
  return interpreter;
}

}  // namespace tandem::op
