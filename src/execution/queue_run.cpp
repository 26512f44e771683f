#include "execution/queue_run.h"

#include <algorithm>
#include <cstring>

#include "device/transfer.h"
#include "profile/span.h"
#include "runtime/random_calls.h"
#include "tandem/config.h"

namespace tandem::graph {
namespace {

std::shared_ptr<Buffer> new_buffer(const devices::DevicePtr& device, size_t bytes) {
  return std::make_shared<Buffer>(device, bytes, DType::uint8, Shape{static_cast<int64_t>(bytes)});
}

}  // namespace

void begin_run(BoundReplica& replica) {
  if (replica.device->works_on_threads()) return;
  replica.last_run_begin = std::move(replica.this_run_begin);
  replica.this_run_begin = replica.device->queue().record();
  replica.landed = {};
}

void issue_step(BoundReplica& replica) {
  devices::Queue& queue = replica.device->queue();
  if (!replica.device_step) {
    replica.device_step = new_buffer(replica.device, sizeof(op::StepScalars));
  }
  StagedSteps& staged = replica.staged_steps;
  StagedSteps::Slot& slot = staged.slots[staged.turn++ % staged.slots.size()];
  if (!slot.fetched.ready()) slot.fetched.wait_once(config::wait_deadline());
  if (!slot.memory) slot.memory = queue.staging(sizeof(op::StepScalars));
  std::memcpy(slot.memory.get(), &replica.step, sizeof(op::StepScalars));
  slot.fetched = queue.submit([&] {
    queue.wait(replica.landed);
    for (const devices::Event& ready : replica.argument_ready) queue.use(ready);
    for (const Tensor& constant : replica.constants) {
      if (constant.defined()) queue.use(constant.body()->ready);
    }
    queue.copy(replica.device->space(), replica.device_step->data(), devices::host_memory(),
               slot.memory.get(), sizeof(op::StepScalars));
    queue.hold(slot.memory);
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
  launch.replica = replica.index;
  launch.part = share.rank;
  launch.parts = share.of;
  replica.current->plan->executables[instruction]->play(launch, {.first = share.rank});
}

bool may_capture(const Program& program, const BoundReplica& replica,
                 const InstructionRange& range) {
  constexpr size_t kWorthCapturing = 4;
  if (range.end - range.begin < kWorthCapturing || profile::is_profiling()) return false;
  if (!devices::captures_steps(*replica.device)) return false;
  // Branches and loops read on the host what to do next.
  const auto has_regions = [](const Node& node) { return !node.regions.empty(); };
  return std::ranges::none_of(program.graph().nodes, has_regions);
}

StretchKey stretch_key(const BoundReplica& replica) {
  const auto& addresses = replica.current->addresses;
  return {.addresses = {addresses.data(), addresses.size()},
          .arena = replica.arena->data(),
          .step = replica.device_step->data(),
          .is_rounded = config::tensor_float_32_execution_enabled()};
}

void undo_on_fault(const Program& program, const BoundReplica& replica) {
  const uint64_t calls = program.graph().random_calls;
  if (calls == 0) return;
  replica.device->queue().undo_on_fault(
      [random = replica.step.random, calls] { runtime::take_back(random, calls); });
}

namespace {

/// An argument of less comes on the queue that computes: waiting for another one takes longer.
constexpr size_t kWorthTheInputQueue = 64 << 10;

/// Memory for `bytes` that `input`, the device's queue for it, writes next. A new buffer may be
/// memory that commands of the queue that computes still use, and one that there is already may be
/// in use by the run before the last.
const std::shared_ptr<Buffer>& landing_for(const BoundReplica& replica, Landing& landing,
                                           size_t bytes, devices::Queue& input) {
  devices::Queue& queue = replica.device->queue();
  std::shared_ptr<Buffer>& buffer =
      &input == &queue ? landing.in_turn : landing.ahead[landing.turn++ % landing.ahead.size()];
  const bool is_new = !buffer || buffer->bytes() < bytes;
  if (is_new) buffer = new_buffer(replica.device, bytes);
  if (&input == &queue) return buffer;
  if (is_new) {
    input.wait(queue.submit([&] { queue.fill(buffer->data(), 0, 1); }));
  } else if (!replica.last_run_begin.ready()) {
    input.wait(replica.last_run_begin);
  }
  return buffer;
}

}  // namespace

void land(BoundReplica& replica, size_t argument, const BodyPtr& value, const ByteRange& part) {
  const size_t bytes = part.count;
  replica.landings.resize(replica.arguments.size());
  devices::Device& device = *replica.device;
  const bool by_itself = value->device()->works_on_threads() && bytes >= kWorthTheInputQueue;
  devices::Queue& queue = by_itself ? device.input_queue() : device.queue();
  const std::shared_ptr<Buffer>& to =
      landing_for(replica, replica.landings[argument], bytes, queue);
  devices::Event& ready = replica.argument_ready[argument];
  ready = devices::transfer(device, to->data(), *value->device(),
                            static_cast<const char*>(value->data()) + part.begin, bytes, value,
                            value->ready, &queue);
  replica.argument_data[argument] = to->data();
  if (!by_itself) return;
  queue.hold(to);
  replica.landed = ready;
}

}  // namespace tandem::graph
