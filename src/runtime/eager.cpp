// Runs ops as they are called. Each call goes the same way: it is placed (placer.h), inputs in
// another memory space are copied, a prepared kernel is looked up by signature and device
// (prepared_kernels.h), and that runs in one of three ways: on the calling thread with everything
// on the stack, where the work is small; on the device's team; or as commands of the device's
// queue. Reads of variables and views run no kernel at all: they share memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory_resource>
#include <numeric>

#include "core/alignment.h"
#include "core/background.h"
#include "core/compute_scope.h"
#include "op/apply.h"
#include "op/cost.h"
#include "profile/span.h"
#include "runtime/placer.h"
#include "runtime/prepared_kernels.h"
#include "runtime/random_calls.h"
#include "runtime/shared_team.h"
#include "tandem/error.h"
#include "tensor/late_values.h"
#include "tensor/shared_stores.h"

namespace tandem::runtime {
namespace {

/// A meeting of all threads of a team with one subteam.
class TeamMeeting final : public op::Meeting {
 public:
  explicit TeamMeeting(core::TeamThread& thread) : thread_(thread) {}
  void meet() const override { thread_.team_barrier(); }

 private:
  core::TeamThread& thread_;
};

/// What variables lend to a call stays where it is as long as this lives.
using Pins = std::pmr::vector<Buffer::Pin>;

void* address_of(const TensorBody& body, Pins& pins) {
  const Buffer& buffer = *body.buffer;
  if (!buffer.is_borrowed()) return body.data();
  const auto is_own = [&](const Buffer::Pin& pin) { return buffer.is_held_by(pin); };
  if (std::ranges::none_of(pins, is_own)) pins.push_back(buffer.pin());
  return static_cast<char*>(buffer.pinned_data()) + body.offset;
}

/// The addresses of a call's inputs, outputs and ranges, in this order.
void fill_addresses(const Tensors& inputs, const Tensors& outputs, const op::RangeOperands& ranges,
                    const devices::Device& device, Pins& pins, void** addresses) {
  for (const Tensor& tensor : inputs) *addresses++ = address_of(*tensor.body(), pins);
  for (const Tensor& tensor : outputs) *addresses++ = tensor.body()->data();
  for (const auto& operand : ranges) *addresses++ = operand.range.data(device);
}

/// The operands of a call, bound: addresses, and what keeps them valid.
class BoundCall final : public core::Job {
 public:
  BoundCall(const PreparedKernel& prepared, const Tensors& inputs, const Tensors& outputs,
            const op::RangeOperands& ranges, const devices::DevicePtr& device, Pins& pins)
      : prepared_(prepared),
        keep_(inputs),
        ranges_(ranges),
        addresses_(inputs.size() + outputs.size() + ranges.size()),
        operands_(addresses_.size()) {
    keep_.insert(keep_.end(), outputs.begin(), outputs.end());
    fill_addresses(inputs, outputs, ranges, *device, pins, addresses_.data());
    std::iota(operands_.begin(), operands_.end(), 0);
    launch_.addresses = addresses_.data();
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
  void run() const {
    const core::ComputeScope computing;
    op::Launch launch = launch_;
    prepared_.executable->play(launch, {.count = prepared_.parts});
  }

  void play(core::TeamThread& thread) override {
    const TeamMeeting meeting(thread);
    op::Launch launch = launch_;
    launch.meeting = &meeting;
    for (const core::Members& members : thread.members()) {
      prepared_.executable->play(launch, {members.rank, members.stride, members.count});
    }
  }

 private:
  const PreparedKernel prepared_;
  Tensors keep_;
  const op::RangeOperands ranges_;
  std::vector<void*> addresses_;
  std::vector<int> operands_;
  std::unique_ptr<Buffer> workspaces_;
  op::StepScalars step_;
  op::Launch launch_;
};

/// One call that has its place.
class PlacedCall {
 public:
  PlacedCall(const op::Signature& signature, const Tensors& inputs, const op::RangeOperands& ranges,
             const devices::DevicePtr& device)
      : signature_(signature),
        inputs_(inputs),
        ranges_(ranges),
        device_(device),
        prepared_(PreparedKernels::instance().get(signature, *device)) {}

  Tensors run() const { return device_->works_on_threads() ? run_now() : issue(); }

 private:
  static constexpr size_t kFewOperands = 16;

  Tensors run_now() const {
    Tensors outputs;
    outputs.reserve(signature_.outputs.size());
    for (const op::TensorType& type : signature_.outputs) {
      outputs.emplace_back(new_body(device_, type.dtype, type.shape));
    }
    is_small(outputs.size()) ? run_here(outputs) : run_on_team(outputs);
    return outputs;
  }

  op::RandomRun random() const {
    return signature_.op->is_random ? next_random_run() : op::RandomRun{};
  }

  bool is_small(size_t outputs) const {
    return prepared_.parts == 1 && inputs_.size() + outputs + ranges_.size() <= kFewOperands &&
           prepared_.executable->workspace_bytes() == 0 && prepared_.executable->phases() == 1;
  }

  profile::Span span() const {
    const op::Cost cost = profile::is_profiling() ? op::cost_of(signature_) : op::Cost{};
    return {signature_.op->name.c_str(), profile::Activity::compute, cost.flops, cost.bytes};
  }

  /// Everything on the stack, on this thread.
  void run_here(const Tensors& outputs) const {
    static constexpr auto kOperands = [] {
      std::array<int, kFewOperands> indices{};
      for (size_t i = 0; i < kFewOperands; ++i) indices[i] = static_cast<int>(i);
      return indices;
    }();
    std::array<void*, kFewOperands> addresses;
    std::array<std::byte, 2 * kFewOperands * sizeof(Buffer::Pin)> memory;
    std::pmr::monotonic_buffer_resource on_stack(memory.data(), memory.size());
    Pins pins(&on_stack);
    fill_addresses(inputs_, outputs, ranges_, *device_, pins, addresses.data());
    op::StepScalars step;
    step.random = random();
    op::Launch launch;
    launch.addresses = addresses.data();
    launch.operands = kOperands.data();
    launch.inputs = static_cast<int>(inputs_.size());
    launch.outputs = static_cast<int>(outputs.size());
    launch.step = &step;
    const profile::Span computing = span();
    const core::ComputeScope scope;
    prepared_.executable->run(launch);
  }

  void run_on_team(const Tensors& outputs) const {
    Pins pins;
    const auto call =
        std::make_shared<BoundCall>(prepared_, inputs_, outputs, ranges_, device_, pins);
    call->set_random(random());
    const profile::Span computing = span();
    if (prepared_.parts == 1 || core::Team::is_playing() || core::in_background()) {
      call->run();
    } else {
      shared_team({device_})->run(call, {.writes_variables = signature_.op->writes_ranges});
    }
  }

  /// On the device's queue. Its memory is handed out again only to commands behind these, so inputs
  /// and workspace may go when this returns; inputs are never borrowed here.
  Tensors issue() const {
    std::vector<std::shared_ptr<TensorBody>> bodies;
    Tensors outputs;
    for (const op::TensorType& type : signature_.outputs) {
      bodies.push_back(new_body(device_, type.dtype, type.shape));
      outputs.emplace_back(bodies.back());
    }
    std::vector<void*> addresses(inputs_.size() + outputs.size() + ranges_.size());
    std::vector<int> operands(addresses.size());
    std::iota(operands.begin(), operands.end(), 0);
    Pins none;
    fill_addresses(inputs_, outputs, ranges_, *device_, none, addresses.data());
    op::Launch launch;
    launch.addresses = addresses.data();
    launch.operands = operands.data();
    launch.inputs = static_cast<int>(inputs_.size());
    launch.outputs = static_cast<int>(outputs.size());
    devices::Queue& queue = device_->queue();
    launch.queue = &queue;
    const std::optional<Buffer> workspace = buffer_of(prepared_.executable->workspace_bytes());
    if (workspace) launch.workspaces = workspace->data();
    const std::optional<Buffer> step =
        buffer_of(signature_.op->is_random ? sizeof(op::StepScalars) : 0);
    const devices::Event done = queue.submit([&] {
      for (const Tensor& input : inputs_) queue.use(input.body()->ready);
      if (step) launch.device_step = issue_step(*step);
      prepared_.executable->play(launch, {});
    });
    for (auto& body : bodies) body->ready = done;
    return outputs;
  }

  /// Brings the random numbers of this call to the device.
  const void* issue_step(const Buffer& block) const {
    const auto scalars = std::make_shared<op::StepScalars>();
    scalars->random = random();
    devices::Queue& queue = device_->queue();
    queue.copy(device_->space(), block.data(), devices::host_memory(), scalars.get(),
               sizeof *scalars);
    queue.hold(scalars);
    queue.undo_on_fault([drawn = scalars->random] { take_back(drawn, 1); });
    return block.data();
  }

  std::optional<Buffer> buffer_of(size_t bytes) const {
    if (bytes == 0) return std::nullopt;
    return std::optional<Buffer>(std::in_place, device_, bytes, DType::uint8,
                                 Shape{static_cast<int64_t>(bytes)});
  }

  const op::Signature& signature_;
  const Tensors& inputs_;
  const op::RangeOperands& ranges_;
  const devices::DevicePtr& device_;
  const PreparedKernel prepared_;
};

class EagerInterpreter final : public op::Interpreter {
 public:
  Tensors interpret(const op::Signature& signature, const Tensors& inputs,
                    const op::RangeOperands& ranges) override {
    for (const op::TensorType& type : signature.outputs) check_shape(signature, type.shape);
    const devices::DevicePtr& device = place(signature, ranges);
    if (signature.op == &read_op()) {
      const StoreRange& range = ranges[0].range;
      auto lent = range.block->lend(device, range.offset, signature.outputs[0].shape);
      if (lent) return {Tensor(std::move(lent))};
    }
    if (signature.op->writes_ranges) {
      for (const auto& operand : ranges) operand.range.block->settle_loans();
    }
    Tensors copies;
    const Tensors& local = on(device, signature, inputs, copies);
    if (signature.op->is_view && local[0].body()->device() == device) {
      return {view_of(local[0], signature.outputs[0].shape)};
    }
    Tensors outputs = PlacedCall(signature, local, ranges, device).run();
    copy_to_other_components(signature, ranges);
    return outputs;
  }

  /// A small model reads variables about as often as it calls ops, so a value that can be lent is
  /// lent without the work of a call.
  Tensor read(const Variable& variable) override {
    check_is_here(*variable.body());
    if (Tensor late = late_value(*variable.body()); late.defined()) return late;
    if (is_placed_by_operands()) {
      const VariableBody& body = *variable.body();
      const StoreRange& range = body.range;
      const devices::DevicePtr& device = range.block->components()[0]->device();
      if (auto lent = range.block->lend(device, range.offset, body.shape)) {
        return Tensor(std::move(lent));
      }
    }
    return Interpreter::read(variable);
  }

 private:
  /// The value of a variable that has no memory: it need not take any for this. An empty Tensor for
  /// all others.
  static Tensor late_value(const VariableBody& variable) {
    const Tensor value = value_without_memory(*variable.range.block);
    if (!value.defined()) return {};
    auto shaped = std::make_shared<TensorBody>(*value.body());
    shaped->shape = variable.shape;
    return Tensor(std::move(shaped));
  }

  /// Eager code does not communicate.
  static void check_is_here(const VariableBody& variable) {
    if (!is_kept_elsewhere(variable.range)) return;
    throw FailedPrecondition(fmt::format(
        "variable '{}': rank {} has its value, since its stage of the pipeline uses it, and this "
        "process has not; a checkpoint, which all ranks save together, has all values",
        variable.name, *keeper_of(variable.range)));
  }

  static const op::OpDef& read_op() {
    static const op::OpDef& read = op::find_op("read_variable");
    return read;
  }

  static void check_shape(const op::Signature& signature, const Shape& shape) {
    if (!shape.is_symbolic()) return;
    throw InvalidArgument(fmt::format(
        "{}: {} has a negative size; only a traced function has a batch to take it from",
        signature.op->name, shape.str()));
  }

  /// The inputs themselves, or `copies` where some are in another memory space.
  static const Tensors& on(const devices::DevicePtr& device, const op::Signature& signature,
                           const Tensors& inputs, Tensors& copies) {
    const char* name = signature.op->name.c_str();
    bool all_here = true;
    for (const Tensor& input : inputs) {
      check_has_value(*input.body(), name);
      all_here &= &input.body()->device()->space() == &device->space();
    }
    if (all_here) return inputs;
    for (const Tensor& input : inputs) copies.push_back(input_on_device(input, device, name));
    return copies;
  }

  /// A variable with components in several spaces is changed in one and copied to the others. A
  /// read is placed where the change was.
  void copy_to_other_components(const op::Signature& signature, const op::RangeOperands& ranges) {
    if (!signature.op->writes_ranges) return;
    for (const auto& operand : ranges) {
      if (operand.range.block->components().size() == 1) continue;
      const op::TensorType& type = operand.type;
      issue_write(operand.range, interpret({&read_op(), {}, {type}, {}, {type}}, {}, {operand})[0]);
    }
  }

  /// The same memory, which never changes, with another shape.
  static Tensor view_of(const Tensor& tensor, const Shape& shape) {
    auto body = std::make_shared<TensorBody>(*tensor.body());
    body->shape = shape;
    return Tensor(std::move(body));
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
