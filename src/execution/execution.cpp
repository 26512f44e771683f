#include "execution/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "core/fork.h"
#include "core/named_error.h"
#include "device/task.h"
#include "execution/queue_run.h"
#include "graph/axis_sums.h"
#include "graph/group_exchange.h"
#include "runtime/random_calls.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tensor/row_slices.h"

namespace tandem::graph {
namespace {

void add_written_blocks(const Graph& graph, std::set<StoreBlock*>& blocks) {
  for (const Node& node : graph.nodes) {
    for (const auto& region : node.regions) add_written_blocks(region->graph, blocks);
    if (!node.op().writes_ranges) continue;
    for (ValueId range : node.ranges) blocks.insert(graph.at(range).range.block.get());
  }
}

std::vector<StoreBlock*> written_blocks(const Graph& graph) {
  std::set<StoreBlock*> blocks;
  add_written_blocks(graph, blocks);
  return {blocks.begin(), blocks.end()};
}

/// Results of former runs that are looked through for one that nobody holds any more. On a queue
/// they keep their addresses from run to run, unless somebody still holds the last ones.
size_t most_pooled(const devices::Device& device) { return device.works_on_threads() ? 16 : 3; }

/// What this process does of each instruction; empty where that is all of it.
std::vector<Share> shares_of(const Program& program) {
  const std::set<ValueId> in_parts = variables_in_parts(program.graph());
  if (in_parts.empty()) return {};
  std::vector<Share> shares(program.instructions().size());
  const op::Group& group = *program.runners().group;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (is_update_in_parts(program.instructions()[i].node, in_parts)) {
      shares[i] = {.rank = group.rank(), .of = group.size()};
    }
  }
  return shares;
}

/// How often a run meets the other processes, for people.
std::string exchanges_text(const Program& program, int64_t rows) {
  const Runners& runners = program.runners();
  size_t bytes = 0;
  for (const Node& node : program.graph().nodes) {
    if (!is_group_exchange(node)) continue;
    for (const op::TensorType& type : node.signature.inputs) bytes += type.bytes(rows);
  }
  return fmt::format("as rank {} of {} processes with {} replicas: {} exchange{} a run, {}\n",
                     runners.group->rank(), runners.group->size(), runners.all, program.exchanges(),
                     program.exchanges() == 1 ? "" : "s", scaled(static_cast<double>(bytes), "B"));
}

/// What the replicas of a mesh tell each other along its axes in a run of so many rows, for people;
/// empty where there is no mesh.
std::string mesh_text(const Program& program, int64_t rows) {
  const AxisSums sums = axis_sums(program, rows);
  if (sums.model.count == 0) return {};
  return sums.model.line("replicas with the same rows") +
         sums.data.line("replicas with the same parts of weights") + sums.all.line("all replicas");
}

/// Points an argument to where it is, or to a copy of it in the replica's memory space.
void bind_argument(BoundReplica& replica, size_t index, const Argument& argument,
                   const BatchShard& shard) {
  const Tensor& tensor = argument.of(replica.index);
  const TensorBody& body = *tensor.body();
  check_has_value(body, "function");
  const bool has_rows = argument.kind == Argument::Kind::rows;
  const int64_t first_row = shard.row_offset - argument.begin_row;
  const bool is_here = !body.slices && &body.device()->space() == &replica.device->space();
  const bool is_part = has_rows && body.shape.extent(0) > 0 && !body.slices;
  const size_t row = is_part ? body.bytes() / static_cast<size_t>(body.shape.extent(0)) : 0;
  const size_t offset = row * static_cast<size_t>(std::max<int64_t>(first_row, 0));
  if (is_here) {
    replica.arguments[index] = tensor;
    replica.argument_data[index] = static_cast<const char*>(body.data()) + offset;
    if (!replica.device->works_on_threads()) replica.argument_ready[index] = body.ready;
    return;
  }
  if (!replica.device->works_on_threads() && !body.slices) {
    check_input_copy(body, *replica.device, "function");
    replica.arguments[index] = Tensor();
    land(replica, index, tensor.body(),
         {offset, is_part ? row * static_cast<size_t>(shard.rows) : body.bytes()});
    return;
  }
  const Tensor part = whole(has_rows ? tensor.rows(first_row, first_row + shard.rows) : tensor);
  if (replica.device->works_on_threads()) {
    replica.arguments[index] = input_on_device(part, replica.device, "function");
    replica.argument_data[index] = replica.arguments[index].body()->data();
  } else {
    check_input_copy(*part.body(), *replica.device, "function");
    replica.arguments[index] = Tensor();
    land(replica, index, part.body(), {0, part.body()->bytes()});
  }
}

/// What an error of memory adds: the largest number of rows, below `rows`, whose memory would still
/// be there. Nothing where the device has no limit, or where the memory is not that of rows.
std::string fitting_rows(devices::Device& device, int64_t rows,
                         const std::function<size_t(int64_t)>& arena_bytes) {
  const devices::AllocatorStatistics info = device.allocator().info();
  const auto room = [](size_t bytes) { return devices::Allocator::rounded(bytes); };
  if (info.limit == 0 || rows <= 1 || room(arena_bytes(1)) == room(arena_bytes(rows))) return {};
  const size_t free = info.limit - std::min(info.limit, info.current);
  int64_t fits = 0;
  for (int64_t too_many = rows; too_many - fits > 1;) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (room(arena_bytes(middle)) <= free ? fits : too_many) = middle;
  }
  if (fits == 0) return "; a single row would not fit either";
  return fmt::format("; of {} rows on this device, {} would fit", rows, fits);
}

}  // namespace

std::shared_ptr<const Plan> Plans::find(const BoundReplica& replica, int64_t rows) const {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    const bool alike = entry.space == &replica.device->space() && entry.threads == replica.threads;
    if (alike && entry.plan->rows == rows) return entry.plan;
  }
  return nullptr;
}

void Plans::add(const BoundReplica& replica, std::shared_ptr<const Plan> plan) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({&replica.device->space(), replica.threads, std::move(plan)});
}

Execution::Execution(std::shared_ptr<const Program> program, const ReplicasPtr& replicas,
                     std::shared_ptr<Plans> plans)
    : program_(std::move(program)),
      plans_(std::move(plans)),
      written_(written_blocks(program_->graph())) {
  std::vector<devices::DevicePtr> devices = replicas->devices;
  CrossDevicePlan plan;
  if (is_cross_device(*replicas)) plan = plan_cross_device(*program_, *replicas);
  if (plan.is_central_apart()) devices.push_back(replicas->central);
  replicas_ = std::vector<BoundReplica>(devices.size());
  const size_t arguments = program_->graph().arguments.size();
  std::vector<const BoundReplica*> subteams;
  for (size_t r = 0; r < devices.size(); ++r) {
    BoundReplica& replica = replicas_[r];
    replica.device = devices[r];
    replica.name = r < replicas->devices.size()
                       ? fmt::format("replica {} on {}", replicas->first + static_cast<int>(r),
                                     devices::full_name(*devices[r]))
                       : fmt::format("the variables on {}", devices[r]->name());
    replica.index = static_cast<int>(r);
    replica.step.replica = replicas->first + static_cast<int>(r);
    replica.threads = replicas->single_threaded ? 1 : devices[r]->threads();
    replica.step.replicas = replicas->count();
    replica.arguments.resize(arguments);
    replica.argument_data.resize(arguments);
    replica.argument_ready.resize(devices[r]->works_on_threads() ? 0 : arguments);
    replica.constants = ValueMap<Tensor>(program_->graph().values.size());
    subteams.push_back(&replica);
  }
  for (BoundReplica& replica : replicas_) {
    replica.team_threads = 0;
    for (const BoundReplica& other : replicas_) {
      const bool together = &other.device->space() == &replica.device->space();
      if (together) replica.team_threads += other.threads;
    }
  }
  if (is_cross_device(*replicas)) {
    cross_device_ =
        std::make_unique<CrossDeviceRun>(*program_, *replicas, std::move(plan), replicas_);
  } else if (devices[0]->works_on_threads()) {
    team_ = runtime::shared_team(devices, replicas->single_threaded, {}, replicas->team);
    team_run_ = std::make_unique<TeamRun>(*program_, std::move(subteams));
    shares_ = shares_of(*program_);
    if (!shares_.empty()) team_run_->set_shares(shares_);
  }
}

/// Errors that come up while a replica among several is bound say which.
template <class F>
void Execution::call_named(int replica, F f) const {
  if (!cross_device_) return f();
  try {
    f();
  } catch (...) {
    std::rethrow_exception(core::named_error(replicas_[static_cast<size_t>(replica)].name));
  }
}

std::unique_lock<core::TimedMutex> Execution::lock(const std::string& function) {
  core::check_not_forked();
  std::unique_lock held(mutex_, std::try_to_lock);
  const auto deadline = config::wait_deadline();
  if (!held && !held.try_lock_for(deadline)) {
    throw DeadlineExceeded(
        fmt::format("{}: a call from another thread did not end within the deadline of {} s",
                    function, std::chrono::duration<double>(deadline).count()));
  }
  return held;
}

void Execution::bind_arguments(BoundReplica& replica, const RunArguments& arguments) {
  const BatchShard& shard = arguments.shards[static_cast<size_t>(replica.index)];
  replica.step.rows = shard.rows;
  replica.step.row_offset = shard.row_offset;
  if (arguments.microbatches > 0) {
    const Runners& runners = program_->runners();
    replica.step.replica = arguments.microbatch * runners.all + runners.first + replica.index;
    replica.step.replicas = arguments.microbatches * runners.all;
  }
  replica.step.global_rows = arguments.global_rows;
  if (arguments.global_rows < 0) {
    replica.step.global_rows = 0;
    for (const BatchShard& each : arguments.shards) replica.step.global_rows += each.rows;
  }
  Instance* const former = std::exchange(replica.current, &instance_for(replica, shard.rows));
  // One at a time of the instances of micro-batches with two numbers of rows keeps its tensors.
  const bool is_other = former != nullptr && former != replica.current;
  if (arguments.microbatches > 0 && is_other && replica.device->works_on_threads()) {
    former->results.assign(former->results.size(), nullptr);
    for (auto& pool : former->pool) pool.clear();
  }
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    bind_argument(replica, i, arguments.tensors[i], shard);
  }
}

Instance& Execution::instance_for(BoundReplica& replica, int64_t rows) {
  for (const auto& instance : replica.instances) {
    if (instance->plan->rows == rows) return *instance;
  }
  auto instance = std::make_unique<Instance>();
  instance->plan = plan_for(replica, rows);
  if (!plans_->find(replica, rows)) plans_->add(replica, instance->plan);
  const Graph& graph = program_->graph();
  instance->addresses = ValueMap<void*>(graph.values.size());
  for (ValueId v : graph.values.ids()) {
    const Value& value = graph.at(v);
    if (value.source == Value::Source::range) {
      instance->addresses[v] = cross_device_ ? cross_device_->variable(replica.index, v)
                                             : value.range.data(*replica.device, replica.index);
      if (!replica.device->works_on_threads()) {
        const auto& components = value.range.block->components();
        instance->variables.insert(instance->variables.end(), components.begin(), components.end());
      }
    }
    if (value.source == Value::Source::constant) {
      Tensor& constant = replica.constants[v];
      if (!constant.defined()) constant = on_device(value.constant, replica.device);
      instance->addresses[v] = constant.body()->data();
    }
  }
  instance->pool.resize(graph.results.size());
  instance->results.resize(graph.results.size());
  replica.instances.push_back(std::move(instance));
  return *replica.instances.back();
}

std::shared_ptr<const Plan> Execution::plan_for(const BoundReplica& replica, int64_t rows) const {
  if (auto known = plans_->find(replica, rows)) return known;
  return std::make_shared<Plan>(
      make_plan(*program_, rows, replica.device, replica.threads, replica.team_threads));
}

/// Points the values of the arena to their places, after making it large enough.
void Execution::bind_arena(BoundReplica& replica, Instance& instance) const {
  const size_t needed = std::max<size_t>(instance.plan->arena_bytes, 1);
  if (needed > replica.arena_bytes) {
    replica.arena.reset();
    replica.arena_bytes = 0;
    const auto elements = static_cast<int64_t>(std::min<size_t>(needed, Shape::kMaxCount));
    try {
      replica.arena =
          std::make_shared<Buffer>(replica.device, needed, DType::uint8, Shape{elements});
    } catch (const ResourceExhausted& error) {
      const auto arena_for = [&](int64_t rows) { return plan_for(replica, rows)->arena_bytes; };
      throw ResourceExhausted(error.what() +
                              fitting_rows(*replica.device, instance.plan->rows, arena_for));
    }
    replica.arena_bytes = needed;
    ++replica.arena_generation;
  }
  if (instance.arena_generation == replica.arena_generation) return;
  instance.arena_generation = replica.arena_generation;
  char* base = static_cast<char*>(replica.arena->data());
  const auto& buffer_of = program_->memory().buffer_of;
  for (ValueId v : buffer_of.ids()) {
    if (buffer_of[v] >= 0) {
      instance.addresses[v] = base + instance.plan->offsets[static_cast<size_t>(buffer_of[v])];
    }
  }
}

/// What changes from run to run: the arguments, the tensors that results are written to, and the
/// aliases of both.
void Execution::bind_run(BoundReplica& replica) const {
  Instance& instance = *replica.current;
  const Graph& graph = program_->graph();
  bind_arena(replica, instance);
  if (!replica.device->works_on_threads()) refresh_constants(*program_, replica);
  for (size_t i = 0; i < graph.arguments.size(); ++i) {
    instance.addresses[graph.arguments[i]] = const_cast<void*>(replica.argument_data[i]);
  }
  for (size_t i = 0; i < graph.results.size(); ++i) {
    instance.results[i].reset();
    auto& pool = instance.pool[i];
    auto free = std::ranges::find_if(pool, is_sole_owner);
    if (free == pool.end()) {
      if (pool.size() == most_pooled(*replica.device))
        pool.erase(pool.begin());  // It is its holders' alone.
      const op::TensorType& type = graph.at(graph.results[i]).type;
      pool.push_back(
          new_body(replica.device, type.dtype, type.shape.resolved(instance.plan->rows)));
      free = pool.end() - 1;
    }
    instance.results[i] = *free;
    instance.addresses[graph.results[i]] = (*free)->data();
  }
  for (ValueId v : graph.values.ids()) {
    if (graph.at(v).source == Value::Source::alias) {
      instance.addresses[v] = instance.addresses[graph.storage_of(v)];
    }
  }
}

void Execution::run(const RunArguments& arguments) {
  wait_for_earlier_runs();
  for (BoundReplica& replica : replicas_) begin_run(replica);
  for (int r = 0; r < replicas(); ++r) {
    call_named(r, [&] { bind_arguments(replicas_[static_cast<size_t>(r)], arguments); });
  }
  for (StoreBlock* block : written_) block->settle_loans();
  if (cross_device_) bind_central();
  const uint64_t calls = program_->graph().random_calls;
  const bool is_shared = program_->runners().group != nullptr;
  op::RandomRun random;
  if (arguments.random != nullptr) {
    random = *arguments.random;
  } else {
    random = is_shared ? runtime::next_shared_random_run(calls) : runtime::next_random_run(calls);
  }
  try {
    run_bound(random);
  } catch (const DeadlineExceeded&) {
    throw;  // It may still go on.
  } catch (...) {
    is_shared ? runtime::take_back_shared(random, calls) : runtime::take_back(random, calls);
    throw;
  }
  // What a pass of a micro-batch got of another is not kept until the next micro-batch comes.
  if (!team_ || arguments.microbatches == 0) return;
  for (BoundReplica& replica : replicas_) std::ranges::fill(replica.arguments, Tensor());
}

void Execution::run_bound(const op::RandomRun& random) {
  for (BoundReplica& replica : replicas_) {
    call_named(replica.index, [&] { bind_run(replica); });
    replica.step.random = random;
  }
  if (cross_device_) {
    cross_device_->reserve();
    cross_device_->run(shared_from_this(), in_flight_[turn_ % in_flight_.size()]);
    ++turn_;
  } else if (team_) {
    team_run_->bind();
    team_->run({shared_from_this(), team_run_.get()}, traits());
  } else {
    run_on_queue(replicas_[0]);
  }
}

/// Replicas share their work in any case: what they compute meets, and each has its deadline.
runtime::JobTraits Execution::traits() const {
  return {.writes_variables = program_->writes_variables(),
          .is_small = replicas_.size() == 1 && replicas_[0].current->plan->is_small &&
                      op::instruction_hook() == nullptr};
}

/// A central device without replicas has no rows, and gets the values that it needs while a run
/// goes on.
void Execution::bind_central() {
  if (!cross_device_->plan().is_central_apart()) return;
  BoundReplica& central = replicas_.back();
  call_named(central.index, [&] {
    central.current = &instance_for(central, 0);
    for (int argument : cross_device_->plan().handed_arguments) {
      const auto i = static_cast<size_t>(argument);
      if (central.arguments[i].defined()) continue;
      const op::TensorType& type = program_->graph().at(program_->graph().arguments[i]).type;
      central.arguments[i] = Tensor(new_body(central.device, type.dtype, type.shape));
      central.argument_data[i] = central.arguments[i].body()->data();
    }
  });
}

/// The host may be ahead of a queue by two runs, not more: what went wrong in one shows up here at
/// the latest, before the next is issued. Where somebody has heard of it already, replicas may have
/// come apart.
void Execution::wait_for_earlier_runs() {
  const size_t oldest = turn_ % in_flight_.size();
  for (size_t i = 0; i < in_flight_.size(); ++i) {
    const bool is_over = std::ranges::all_of(in_flight_[i], &devices::Event::ready);
    if (i != oldest && !is_over) continue;
    awaited_.swap(in_flight_[i]);
    in_flight_[i].clear();
    for (const devices::Event& event : awaited_) {
      const auto waited = event.wait_once(config::wait_deadline());
      if (waited == devices::Event::Waited::failed && cross_device_) cross_device_->repair_first();
    }
  }
}

void Execution::run_on_queue(BoundReplica& replica) {
  static const std::string kNoName;
  devices::Queue& queue = replica.device->queue();
  const devices::Event done = queue.submit([&] {
    issue_step(replica);
    const size_t end = program_->instructions().size();
    issue_stretch(*program_, replica, {0, end}, [&] {
      for (size_t i = 0; i < end; ++i) issue_instruction(*program_, replica, i, kNoName);
    });
    undo_on_fault(*program_, replica);
  });
  for (auto& result : replica.current->results) result->ready = done;
  in_flight_[turn_++ % in_flight_.size()].assign(1, done);
}

namespace {

/// What was captured of the runs on a replica's device, for people; empty where nothing was.
std::string captures_text(const BoundReplica& replica) {
  size_t captures = 0;
  size_t replays = 0;
  for (const auto& instance : replica.instances) {
    for (const auto& [begin, stretch] : instance->captured) {
      captures += stretch.captures();
      replays += stretch.replays();
    }
  }
  if (captures == 0) return {};
  return fmt::format("commands for {}: {} times captured, {} times replayed\n",
                     replica.device->name(), captures, replays);
}

}  // namespace

std::string Execution::explain() {
  constexpr int64_t kTypicalRows = 128;
  const BoundReplica& first = replicas_[0];
  const auto plan = first.current ? first.current->plan : plan_for(first, kTypicalRows);
  std::string text;
  for (const BoundReplica& replica : replicas_) {
    text += fmt::format("on {}, {} thread{}\n", replica.device->name(), replica.threads,
                        replica.threads == 1 ? "" : "s");
  }
  if (program_->runners().group) text += exchanges_text(*program_, plan->rows);
  if (!reduction().empty()) text += fmt::format("{}\n", reduction());
  if (cross_device_) text += explain_edges(cross_device_->plan(), *program_);
  for (const BoundReplica& replica : replicas_) text += captures_text(replica);
  return text + mesh_text(*program_, plan->rows) + graph::explain(*program_, *plan);
}

MemoryPlan Execution::memory_plan(int64_t rows) {
  MemoryPlan plan;
  for (BoundReplica& replica : replicas_) {
    const auto allocated = [](size_t bytes) { return devices::Allocator::rounded(bytes); };
    const bool is_central = replica.index >= replicas();
    const int64_t own_rows = is_central ? 0 : rows;
    MemoryPlan::Device device{.name = replica.device->name(),
                              .arena_bytes = allocated(plan_for(replica, own_rows)->arena_bytes)};
    for (ValueId result : program_->graph().results) {
      device.result_bytes += allocated(program_->graph().at(result).type.bytes(own_rows));
    }
    for (const Value& value : program_->graph().values) {
      if (value.source != Value::Source::constant) continue;
      const TensorBody& constant = *value.constant.body();
      if (&constant.device()->space() == &replica.device->space()) continue;
      device.copy_bytes += allocated(constant.bytes());
    }
    if (!replica.device->works_on_threads()) {
      device.copy_bytes += allocated(sizeof(op::StepScalars));
    }
    if (cross_device_) device.copy_bytes += cross_device_->extra_bytes(replica.index, own_rows);
    plan.devices.push_back(std::move(device));
  }
  return plan;
}

size_t Execution::arena_bytes(int replica) const {
  return replicas_[static_cast<size_t>(replica)].arena_bytes;
}

}  // namespace tandem::graph
