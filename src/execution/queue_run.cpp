#include "execution/queue_run.h"

#include "device/transfer.h"
#include "runtime/random_calls.h"

namespace tandem::graph {
namespace {

std::shared_ptr<Buffer> new_buffer(const devices::DevicePtr& device, size_t bytes) {
  return std::make_shared<Buffer>(device, bytes, DType::uint8, Shape{static_cast<int64_t>(bytes)});
}

}  // namespace

void issue_step(BoundReplica& replica) {
  if (!replica.device_step) {
    replica.device_step = new_buffer(replica.device, sizeof(op::StepScalars));
  }
  const auto scalars = std::make_shared<op::StepScalars>(replica.step);
  devices::Queue& queue = replica.device->queue();
  queue.submit([&] {
    for (const devices::Event& ready : replica.argument_ready) queue.use(ready);
    for (const Tensor& constant : replica.constants) {
      if (constant.defined()) queue.use(constant.body()->ready);
    }
    queue.copy(replica.device->space(), replica.device_step->data(), devices::host_memory(),
               scalars.get(), sizeof(op::StepScalars));
    queue.hold(scalars);
  });
}

void refresh_constants(const Program& program, BoundReplica& replica) {
  for (const ValueId v : replica.constants.ids()) {
    Tensor& constant = replica.constants[v];
    if (!constant.defined() || !constant.body()->ready.has_failed()) continue;
    const Tensor& original = program.graph().values[v].constant;
    if (constant.body() == original.body()) continue;  // It is bad itself.
    constant = on_device(original, replica.device);
    for (const auto& instance : replica.instances) instance->addresses[v] = constant.body()->data();
  }
}

void issue_instruction(const Program& program, const BoundReplica& replica, size_t instruction,
                       const std::string& name, const Share& share) {
  op::Launch launch = launch_of(program, replica, instruction);
  launch.step = nullptr;
  launch.queue = &replica.device->queue();
  launch.device_step = replica.device_step->data();
  launch.replica_name = &name;
  launch.replica = replica.step.replica;
  launch.part = share.rank;
  launch.parts = share.of;
  replica.current->plan->executables[instruction]->play(launch, {.first = share.rank});
}

void undo_on_fault(const Program& program, const BoundReplica& replica) {
  const uint64_t calls = program.graph().random_calls;
  if (calls == 0) return;
  replica.device->queue().undo_on_fault(
      [random = replica.step.random, calls] { runtime::take_back(random, calls); });
}

void land(BoundReplica& replica, size_t argument, const BodyPtr& value) {
  const size_t bytes = value->bytes();
  replica.landings.resize(replica.arguments.size());
  std::shared_ptr<Buffer>& landing = replica.landings[argument];
  if (!landing || landing->bytes() < bytes) landing = new_buffer(replica.device, bytes);
  replica.argument_ready[argument] = devices::transfer(
      *replica.device, landing->data(), *value->device(), value->data(), bytes,
      std::make_shared<std::pair<BodyPtr, std::shared_ptr<Buffer>>>(value, landing), value->ready);
  replica.argument_data[argument] = landing->data();
}

}  // namespace tandem::graph
