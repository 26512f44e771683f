#include "execution/queue_run.h"

#include "device/transfer.h"

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
  queue.copy(replica.device->space(), replica.device_step->data(), devices::host_memory(),
             scalars.get(), sizeof(op::StepScalars));
  queue.hold(scalars);
}

void issue_instruction(const Program& program, const BoundReplica& replica, size_t instruction,
                       const std::string& name, const Share& share) {
  op::Launch launch = launch_of(program, replica, instruction);
  launch.step = nullptr;
  launch.queue = &replica.device->queue();
  launch.device_step = replica.device_step->data();
  launch.replica_name = &name;
  launch.part = share.rank;
  launch.parts = share.of;
  replica.current->plan->executables[instruction]->play(launch, {.first = share.rank});
}

void land(BoundReplica& replica, size_t argument, const BodyPtr& value) {
  const size_t bytes = value->bytes();
  replica.landings.resize(replica.arguments.size());
  std::shared_ptr<Buffer>& landing = replica.landings[argument];
  if (!landing || landing->bytes() < bytes) landing = new_buffer(replica.device, bytes);
  devices::transfer(*replica.device, landing->data(), *value->device(), value->data(), bytes,
                    std::make_shared<std::pair<BodyPtr, std::shared_ptr<Buffer>>>(value, landing));
  replica.argument_data[argument] = landing->data();
}

}  // namespace tandem::graph
