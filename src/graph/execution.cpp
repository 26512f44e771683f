#include "graph/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>

#include "core/compute_scope.h"
#include "profile/recorder.h"
#include "runtime/random_calls.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::graph {
namespace {

using InstructionHook = std::function<void(int, const std::string&)>;
std::atomic<const InstructionHook*> instruction_hook{nullptr};

constexpr const char* kStep = "step";
constexpr const char* kBarrier = "barrier";

/// Of the threads of one replica.
class SquadMeeting final : public op::Meeting {
 public:
  SquadMeeting(core::Host& host, const core::Member& member) : host_(host), member_(member) {}

  void meet() const override {
    const profile::Span waiting(kBarrier, profile::Kind::wait);
    host_.squad_barrier(member_);
    host_.leave_if_failed();
  }

 private:
  core::Host& host_;
  const core::Member& member_;
};

profile::Span span_of(const Instruction& instruction, const Cost& cost, int parts) {
  const op::OpDef& op = instruction.node.op();
  return {op.name.c_str(), op.is_collective ? profile::Kind::reduce : profile::Kind::compute,
          cost.flops / parts, cost.bytes / parts};
}

}  // namespace

void set_instruction_hook(InstructionHook hook) {
  // A hook that a stuck thread may still be in is never freed.
  static auto* hooks = new std::deque<InstructionHook>;
  instruction_hook = hook ? &hooks->emplace_back(std::move(hook)) : nullptr;
}

Execution::Execution(std::shared_ptr<const Program> program, const ReplicasPtr& replicas)
    : program_(std::move(program)),
      replicas_(replicas->devices.size()),
      peers_(replicas->devices.size()) {
  const std::vector<devices::DevicePtr>& devices = replicas->devices;
  const size_t arguments = program_->graph().arguments.size();
  for (size_t r = 0; r < devices.size(); ++r) {
    Replica& replica = replicas_[r];
    replica.device = devices[r];
    replica.step.replica = static_cast<int>(r);
    replica.threads = replicas->single_threaded ? 1 : devices[r]->threads();
    replica.step.replicas = replicas->count();
    replica.arguments.resize(arguments);
    replica.argument_data.resize(arguments);
    replica.constants.resize(program_->graph().values.size());
    team_size_ += replica.threads;
  }
  const auto& instructions = program_->instructions();
  for (size_t i = 1; i < instructions.size(); ++i) {
    if (instructions[i].barrier == Barrier::team) segment_ends_.push_back(i);
  }
  segment_ends_.push_back(instructions.size());
  if (devices[0]->queue().immediate()) {
    team_ = runtime::team_slot(devices, replicas->single_threaded);
  }
}

std::unique_lock<core::Baton> Execution::lock() {
  std::unique_lock held(baton_, std::try_to_lock);
  if (!held && !held.try_lock_for(config::wait_deadline())) {
    throw DeadlineExceeded("function: a call from another thread did not end within the deadline");
  }
  return held;
}

void Execution::set_shard(int r, const Shard& shard, int64_t global_rows) {
  Replica& replica = replicas_[static_cast<size_t>(r)];
  replica.step.rows = shard.rows;
  replica.step.row_offset = shard.row_offset;
  replica.step.global_rows = global_rows;
  replica.current = &instance_for(replica, shard.rows);
}

void Execution::bind(int r, int index, const Tensor& tensor) {
  check_concrete(*tensor.body(), "function");
  Replica& replica = replicas_[static_cast<size_t>(r)];
  const auto i = static_cast<size_t>(index);
  replica.arguments[i] = input_on_device(tensor, replica.device, "function");
  replica.argument_data[i] = replica.arguments[i].body()->data();
}

void Execution::bind_rows(int r, int index, const Tensor& tensor, int64_t first_row, int64_t rows) {
  check_concrete(*tensor.body(), "function");
  Replica& replica = replicas_[static_cast<size_t>(r)];
  const TensorBody& body = *tensor.body();
  if (&body.device()->space() != &replica.device->space()) {
    bind(r, index, tensor.rows(first_row, first_row + rows));
    return;
  }
  const auto i = static_cast<size_t>(index);
  const size_t row_bytes =
      body.shape[0] == 0 ? 0 : body.bytes() / static_cast<size_t>(body.shape[0]);
  replica.arguments[i] = tensor;
  replica.argument_data[i] =
      static_cast<const char*>(body.data()) + row_bytes * static_cast<size_t>(first_row);
}

Execution::Instance& Execution::instance_for(Replica& replica, int64_t rows) {
  for (const auto& instance : replica.instances) {
    if (instance->plan->rows == rows) return *instance;
  }
  auto instance = std::make_unique<Instance>();
  instance->plan = plan_for(replica, rows);
  const Graph& graph = program_->graph();
  instance->slots.resize(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.source == Value::Source::range)
      instance->slots[v] = value.range.data(*replica.device, replica.step.replica);
    if (value.source == Value::Source::constant) {
      Tensor& constant = replica.constants[v];
      if (!constant.defined()) constant = on_device(value.constant, replica.device);
      instance->slots[v] = constant.body()->data();
    }
  }
  instance->pool.resize(graph.results.size());
  instance->results.resize(graph.results.size());
  replica.instances.push_back(std::move(instance));
  return *replica.instances.back();
}

std::shared_ptr<const Plan> Execution::plan_for(const Replica& replica, int64_t rows) {
  for (const Replica& other : replicas_) {
    const bool alike =
        &other.device->space() == &replica.device->space() && other.threads == replica.threads;
    if (!alike) continue;
    for (const auto& instance : other.instances) {
      if (instance->plan->rows == rows) return instance->plan;
    }
  }
  return std::make_shared<Plan>(
      make_plan(*program_, rows, replica.device, replica.threads, team_size_));
}

/// Points the values of the arena to their places, after making it large enough.
void Execution::bind_arena(Replica& replica, Instance& instance) const {
  const size_t needed = std::max<size_t>(instance.plan->arena_bytes, 1);
  if (needed > replica.arena_bytes) {
    replica.arena.reset();
    replica.arena = std::make_shared<Buffer>(replica.device, needed, DType::uint8,
                                             Shape{static_cast<int64_t>(needed)});
    replica.arena_bytes = needed;
    ++replica.arena_generation;
  }
  if (instance.arena_generation == replica.arena_generation) return;
  instance.arena_generation = replica.arena_generation;
  char* base = static_cast<char*>(replica.arena->data());
  const auto& buffer_of = program_->memory().buffer_of;
  for (size_t v = 0; v < buffer_of.size(); ++v) {
    if (buffer_of[v] >= 0) {
      instance.slots[v] = base + instance.plan->offsets[static_cast<size_t>(buffer_of[v])];
    }
  }
}

/// What changes from run to run: the arguments, the tensors that results are written to, and the
/// aliases of both.
void Execution::bind_run(Replica& replica) const {
  Instance& instance = *replica.current;
  const Graph& graph = program_->graph();
  bind_arena(replica, instance);
  for (size_t i = 0; i < graph.arguments.size(); ++i) {
    instance.slots[static_cast<size_t>(graph.arguments[i])] =
        const_cast<void*>(replica.argument_data[i]);
  }
  for (size_t i = 0; i < graph.results.size(); ++i) {
    instance.results[i].reset();
    auto& pool = instance.pool[i];
    auto free = std::ranges::find_if(pool, is_sole_owner);
    if (free == pool.end()) {
      const op::TensorType& type = graph.at(graph.results[i]).type;
      pool.push_back(
          new_body(replica.device, type.dtype, type.shape.resolved(instance.plan->rows)));
      free = pool.end() - 1;
    }
    instance.results[i] = *free;
    instance.slots[static_cast<size_t>(graph.results[i])] = (*free)->data();
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].source == Value::Source::alias) {
      instance.slots[v] =
          instance.slots[static_cast<size_t>(graph.storage_of(static_cast<int>(v)))];
    }
  }
}

void Execution::run() { run(program_->is_random() ? runtime::next_random_run() : op::RandomRun{}); }

void Execution::run(const op::RandomRun& random) {
  for (size_t r = 0; r < replicas_.size(); ++r) {
    bind_run(replicas_[r]);
    replicas_[r].step.random = random;
    peers_[r] = replicas_[r].current->slots.data();
  }
  if (team_) {
    team_->run(shared_from_this());
  } else {
    for (Replica& replica : replicas_) run_on_queue(replica);
  }
}

op::Launch Execution::launch_of(const Replica& replica, size_t i) const {
  const Node& node = program_->instructions()[i].node;
  op::Launch launch;
  launch.slots = replica.current->slots.data();
  launch.operands = replica.current->plan->operands[i].data();
  launch.inputs = static_cast<int>(node.inputs.size());
  launch.outputs = static_cast<int>(node.outputs.size());
  launch.step = &replica.step;
  launch.stream = node.stream;
  launch.peers = peers_.data();
  const Plan& plan = *replica.current->plan;
  launch.workspaces = static_cast<char*>(replica.arena->data()) + plan.workspace_offset;
  launch.workspace_stride = plan.workspace_bytes;
  return launch;
}

void Execution::play(core::Host& host) {
  if (profile::is_recording()) {
    profile::name_row(fmt::format("thread {} of {}", host.index(), replicas_[0].device->name()));
  }
  const profile::Span step(kStep, profile::Kind::step);
  size_t begin = 0;
  for (size_t end : segment_ends_) {
    if (begin > 0) {
      const profile::Span waiting(kBarrier, profile::Kind::wait);
      host.team_barrier();
    }
    for (const core::Member& member : host.members()) play_segment(host, member, begin, end);
    begin = end;
  }
}

void Execution::play_segment(core::Host& host, const core::Member& member, size_t begin,
                             size_t end) {
  const Replica& replica = replicas_[static_cast<size_t>(member.squad)];
  const Plan& plan = *replica.current->plan;
  const auto& instructions = program_->instructions();
  const InstructionHook* hook = instruction_hook.load(std::memory_order_acquire);
  const SquadMeeting meeting(host, member);
  host.playing(member);
  if (profile::is_recording()) profile::set_replica(member.squad);
  for (size_t i = begin; i < end; ++i) {
    const Instruction& instruction = instructions[i];
    if (instruction.barrier == Barrier::squad) meeting.meet();
    host.doing(instruction.node.op().name.c_str());
    if (hook != nullptr) (*hook)(member.squad, instruction.node.op().name);
    host.leave_if_failed();
    op::Launch launch = launch_of(replica, i);
    launch.part = instruction.whole_team ? member.global : member.rank;
    launch.parts = instruction.whole_team ? team_size_ : member.size;
    launch.meeting = &meeting;
    const op::Executable& executable = *plan.executables[i];
    const profile::Span computing = span_of(instruction, plan.costs[i], launch.parts);
    executable.run(launch);
    if (const int phases = executable.phases(); phases > 1) {
      for (launch.phase = 1; launch.phase < phases; ++launch.phase) {
        host.squad_barrier(member);
        executable.run(launch);
      }
      meeting.meet();  // The next instruction may use the workspaces.
    }
  }
}

/// On a device with a queue the whole program is one piece of its work, which owns a copy of the
/// addresses: the host may bind the next run before this one has begun.
void Execution::run_on_queue(Replica& replica) {
  struct Bound {
    std::shared_ptr<Execution> execution;
    std::vector<void*> slots;
    op::StepScalars step;
    std::shared_ptr<const Plan> plan;
    std::shared_ptr<Buffer> arena;
    Tensors arguments;
    std::vector<std::shared_ptr<TensorBody>> results;
  };
  Instance& instance = *replica.current;
  auto bound = std::make_shared<Bound>(
      Bound{std::static_pointer_cast<Execution>(shared_from_this()), instance.slots, replica.step,
            instance.plan, replica.arena, replica.arguments, instance.results});
  auto& queue = replica.device->queue();
  for (size_t i = 0; i < instance.plan->executables.size(); ++i) {
    op::Launch launch = launch_of(replica, i);
    launch.slots = bound->slots.data();
    launch.step = &bound->step;
    launch.peers = nullptr;
    queue.submit([bound, launch, i]() mutable {
      const core::ComputeScope computing;
      const op::Executable& executable = *bound->plan->executables[i];
      const profile::Span span =
          span_of(bound->execution->program().instructions()[i], bound->plan->costs[i], 1);
      for (launch.phase = 0; launch.phase < executable.phases(); ++launch.phase) {
        executable.run(launch);
      }
    });
  }
  const devices::Event done = queue.record();
  for (auto& result : instance.results) result->ready = done;
}

Tensor Execution::result(int replica, int index) const {
  return Tensor(
      replicas_[static_cast<size_t>(replica)].current->results[static_cast<size_t>(index)]);
}

std::string Execution::explain() {
  constexpr int64_t kTypicalRows = 128;
  std::string text;
  for (const Replica& replica : replicas_) {
    text += fmt::format("on {}, {} thread{}\n", replica.device->name(), replica.threads,
                        replica.threads == 1 ? "" : "s");
  }
  const Replica& first = replicas_[0];
  const auto plan = first.current ? first.current->plan : plan_for(first, kTypicalRows);
  return text + graph::explain(*program_, *plan);
}

MemoryPlan Execution::memory_plan(int64_t rows) {
  MemoryPlan plan;
  for (Replica& replica : replicas_) {
    const auto allocated = [](size_t bytes) { return devices::Allocator::rounded(bytes); };
    MemoryPlan::Device device{.name = replica.device->name(),
                              .arena_bytes = allocated(plan_for(replica, rows)->arena_bytes)};
    for (int result : program_->graph().results) {
      const op::TensorType& type = program_->graph().at(result).type;
      device.result_bytes +=
          allocated(static_cast<size_t>(type.shape.resolved(rows).count()) * size_of(type.dtype));
    }
    for (const Value& value : program_->graph().values) {
      if (value.source != Value::Source::constant) continue;
      const TensorBody& constant = *value.constant.body();
      if (&constant.device()->space() == &replica.device->space()) continue;
      device.copy_bytes += allocated(constant.bytes());
    }
    plan.devices.push_back(std::move(device));
  }
  return plan;
}

size_t Execution::arena_bytes(int replica) const {
  return replicas_[static_cast<size_t>(replica)].arena_bytes;
}

}  // namespace tandem::graph
