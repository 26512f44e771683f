#include "distribute/strategy_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "checkpoint/process_files.h"
#include "core/timed_mutex.h"
#include "distribute/automatic_microbatches.h"
#include "distribute/context.h"
#include "distribute/memory_room.h"
#include "execution/pipeline/pipeline.h"
#include "graph/axis_sums.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tensor/shared_stores.h"

namespace tandem::distribute {
namespace {

std::vector<devices::DevicePtr> store_devices(const graph::Replicas& replicas) {
  if (replicas.central) return {replicas.central};
  std::vector<devices::DevicePtr> each;
  for (const devices::DevicePtr& device : replicas.devices) {
    if (std::ranges::find(each, device) == each.end()) each.push_back(device);
  }
  return each;
}

/// The devices that have parts of variables. Of the members of a pipeline's stage that are
/// processes this one is one, whatever the number of micro-batches.
std::vector<devices::DevicePtr> part_devices(const graph::Replicas& replicas) {
  const bool is_member = replicas.pipeline && replicas.pipeline->stages.member_processes > 1;
  return is_member ? std::vector{replicas.devices[0]} : replicas.devices;
}

/// The rows that each replica has, or kUnequal. Those of other processes are known by the rows of
/// all: where they could be dealt out evenly, into `parts`, and ours were, all have as many.
int64_t common_rows(const graph::Shards& shards, int64_t global_rows, int parts) {
  const int64_t first = shards[0].rows;
  const bool equal = std::ranges::all_of(
      shards, [&](const graph::BatchShard& each) { return each.rows == first; });
  return equal && first * parts == global_rows ? first : graph::Arguments::kUnequal;
}

bool fits(const Tensor& value, const op::TensorType& traced) {
  const Shape& shape = value.shape();
  if (value.dtype() != traced.dtype || shape.rank() != traced.shape.rank()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t wanted = traced.shape.extent(axis);
    if (wanted >= 0 && wanted != shape.extent(axis)) return false;
  }
  return true;
}

}  // namespace

/// The parts of the batch that the replicas of this process have.
struct Strategy::Body::BatchRows {
  graph::Shards shards;
  int64_t global_rows;
};

/// How runs come to their number of micro-batches, one run at a time.
struct Strategy::Body::Automatic {
  ReplicasOf replicas_of;
  core::TimedMutex mutex;
  AutomaticMicrobatches microbatches;
};

Strategy::Body::Body() = default;
Strategy::Body::~Body() = default;

Strategy::Body::Body(std::string name, graph::Replicas replicas)
    : name_(std::move(name)),
      replicas_(std::make_shared<graph::Replicas>(std::move(replicas))),
      store_(std::make_shared<Store>(store_devices(*replicas_), replicas_->owner,
                                     part_devices(*replicas_))),
      workers_(replicas_->group
                   ? std::make_unique<WorkerGroup>(replicas_->group, replicas_->agreement)
                   : nullptr) {
  if (replicas_->pipeline) note_stage_stores();
  if (!workers_) return;
  if (other_replicas() != nullptr) note_shared(store_);
  checkpoint::set_processes(replicas_->group);
}

Strategy::Body::Body(std::string name, graph::Replicas replicas, std::shared_ptr<op::Group> summing)
    : Body(std::move(name), std::move(replicas)) {
  auto all = std::make_shared<graph::Replicas>(*replicas_);
  all->group = std::move(summing);
  replicas_ = std::move(all);
}

namespace {

/// What a device may still take; nothing where it has no limit.
std::optional<size_t> room_on(devices::Device& device) {
  const devices::AllocatorStatistics info = device.allocator().info();
  if (info.limit == 0) return std::nullopt;
  return info.limit - std::min(info.limit, info.current);
}

/// In which of the stores of stages but the first a variable is created; null: with the first
/// stage's.
std::shared_ptr<Store> stage_store_of(const std::string& variable,
                                      const graph::PipelineStages& stages,
                                      const std::vector<std::shared_ptr<Store>>& stores) {
  for (int chunk = 0; chunk < stages.chunks_in_all(); ++chunk) {
    if (!stages.lists(chunk, variable)) continue;
    const size_t stage = static_cast<size_t>(chunk) % stages.devices.size();
    return stage == 0 ? nullptr : stores[stage - 1];
  }
  std::shared_ptr<Store> roomiest;
  std::optional<size_t> most = room_on(*stages.devices[0]);
  for (size_t stage = 1; stage < stages.devices.size() && most; ++stage) {
    devices::Device& device = *stages.devices[stage];
    // Where stages have memories of their own a layer is computed where its variables are.
    if (&device.space() != &stages.devices[0]->space()) return nullptr;
    const std::optional<size_t> room = room_on(device);
    if (room && *room <= *most) continue;
    roomiest = stores[stage - 1];
    most = room;
  }
  return roomiest;
}

}  // namespace

/// The stages of a process have their own variables: those that are created under the scopes of
/// their devices or that are of layers which are listed for them, and where stages share memory and
/// have limits, those that they have room for.
void Strategy::Body::note_stage_stores() {
  const graph::PipelineStages& stages = replicas_->pipeline->stages;
  if (stages.homes) return;  // Processes keep what their stages read.
  for (size_t stage = 1; stage < stages.devices.size(); ++stage) {
    const auto members = stages.members_of(static_cast<int>(stage), 0);
    std::vector<devices::DevicePtr> by_replica;
    for (size_t r = 0; r < devices().size(); ++r) {
      by_replica.push_back(members[r % members.size()]);
    }
    stage_stores_.push_back(std::make_shared<Store>(members, replicas_->owner, by_replica));
  }
  if (stage_stores_.empty()) return;
  note_homes(store_, stage_stores_,
             [pipeline = replicas_->pipeline, stores = stage_stores_](const std::string& variable) {
               return stage_store_of(variable, pipeline->stages, stores);
             });
}

void Strategy::Body::set_sharding(const Store::ShardingRule& rule) {
  store_->set_sharding(rule);
  for (const auto& store : stage_stores_) store->set_sharding(rule);
}

void Strategy::Body::set_automatic_microbatches(ReplicasOf replicas_of) {
  automatic_ = std::make_unique<Automatic>();
  automatic_->replicas_of = std::move(replicas_of);
}

/// Where each replica was given its own values, there are as many micro-batches as before.
void Strategy::Body::settle_microbatches(const Strategy& self, const FlatFunction& f,
                                         std::span<const PerReplica> arguments) const {
  Tensors batch;
  for (const PerReplica& argument : arguments) {
    if (argument.values()) return;
    if (argument.is_split()) batch.push_back(argument.whole());
  }
  if (batch.empty() || batch[0].shape().extent(0) == 0) return;
  const int64_t rows = batch[0].shape().extent(0);
  const AutomaticMicrobatches::Step step{
      .strategy = name_,
      .function = *f.body(),
      .rows = rows,
      .batch_bytes = row_bytes(batch) * static_cast<size_t>(rows),
      .compile = [&] { return find_or_compile(self, f, listed(arguments), rows_of(arguments)); },
      .choose = [&](int count) { return choose_microbatches(count); },
      .least_of_all = [&](int64_t own) { return least_of_all(own); }};
  try {
    automatic_->microbatches.settle(step, span().shards());
  } catch (...) {
    if (workers_) workers_->abort_with_current_error();
    throw;
  }
}

/// There are as many for each part of the batch, so there may be some more than `count`; returns
/// how many.
int Strategy::Body::choose_microbatches(int count) const {
  const int parts = replicas_->pipeline ? replicas_->pipeline->stages.parts_of_batch() : 1;
  graph::Replicas chosen = automatic_->replicas_of((count + parts - 1) / parts);
  chosen.owner = replicas_->owner;
  const std::lock_guard lock(lists_mutex_);
  lists_.clear();
  replicas_ = std::make_shared<graph::Replicas>(std::move(chosen));
  return span().shards();
}

int64_t Strategy::Body::least_of_all(int64_t own) const {
  if (!workers_) return own;
  const std::unique_lock<std::mutex> turn = workers_->lock();
  return std::ranges::min(workers_->all_of(own, "automatic micro-batches"));
}

const std::vector<devices::DevicePtr>& Strategy::Body::devices() const {
  static const auto* none = new std::vector<devices::DevicePtr>;
  return replicas_ ? replicas_->devices : *none;
}

bool Strategy::Body::shares_memory() const {
  const auto& space = [](const devices::DevicePtr& device) { return &device->space(); };
  return is_default() ||
         (std::ranges::all_of(devices(),
                              [&](const devices::DevicePtr& device) {
                                return space(device) == space(devices()[0]);
                              }) &&
          (!replicas_->central || space(replicas_->central) == space(devices()[0])));
}

graph::Results Strategy::Body::run(const Strategy& self, const FlatFunction& f,
                                   std::span<const PerReplica> arguments,
                                   const op::RandomRun* random) const {
  if (!op::recorders().empty()) {
    throw FailedPrecondition(
        "run: called under an open gradient tape, which cannot see into it; put the tape inside "
        "the function");
  }
  if (!automatic_) return run_once_chosen(self, f, arguments, random);
  std::unique_lock turn(automatic_->mutex, std::try_to_lock);
  if (!turn && !turn.try_lock_for(config::wait_deadline())) {
    throw DeadlineExceeded("run: another thread's run did not end within the deadline");
  }
  settle_microbatches(self, f, arguments);
  return run_once_chosen(self, f, arguments, random);
}

graph::Results Strategy::Body::run_once_chosen(const Strategy& self, const FlatFunction& f,
                                               std::span<const PerReplica> arguments,
                                               const op::RandomRun* random) const {
  const graph::ArgumentList list = listed(arguments);
  std::unique_lock<std::mutex> turn;
  if (workers_) turn = workers_->lock();
  const BatchRows batch = rows_of(arguments);
  const graph::ConcreteFunctionPtr concrete = find_or_compile(self, f, list, batch);
  const graph::RunArguments run{
      .tensors = list, .shards = batch.shards, .global_rows = batch.global_rows, .random = random};
  if (!workers_) return f.body()->run(*concrete, run);
  workers_->note_run();
  try {
    workers_->enter(concrete, batch.global_rows);
    return f.body()->run(*concrete, run);
  } catch (...) {
    workers_->abort_with_current_error();
    throw;
  }
}

void Strategy::Body::compile(const Strategy& self, const FlatFunction& f,
                             std::span<const PerReplica> arguments) const {
  find_or_compile(self, f, listed(arguments), rows_of(arguments));
}

graph::ConcreteFunctionPtr Strategy::Body::find_or_compile(const Strategy& self,
                                                           const FlatFunction& f,
                                                           std::span<const graph::Argument> list,
                                                           const BatchRows& batch) const {
  graph::Arguments given{.tensors = list,
                         .rows = common_rows(batch.shards, batch.global_rows, span().shards())};
  if (std::ranges::any_of(list, &graph::Argument::differs)) {
    given.batch = graph::Arguments::Batch::by_replica;
  }
  f.body()->check_signature(given);
  graph::ConcreteFunctionPtr concrete;
  {
    const RunScope running(self);
    concrete = f.body()->find_or_compile(given, {.replicas = replicas_});
  }
  check_types(*concrete, list);
  note_run(f.body(), concrete, batch.shards[0].rows);
  return concrete;
}

void Strategy::Body::note_run(const std::shared_ptr<graph::FunctionBody>& function,
                              const graph::ConcreteFunctionPtr& concrete, int64_t rows) const {
  const std::lock_guard lock(lists_mutex_);
  for (Ran& ran : ran_) {
    if (ran.concrete.owner_before(concrete) || concrete.owner_before(ran.concrete)) continue;
    ran.rows = rows;
    return;
  }
  std::erase_if(ran_, [](const Ran& ran) { return ran.concrete.expired(); });
  ran_.push_back({function, concrete, rows});
}

std::string Strategy::Body::explain_runs() const {
  std::vector<Ran> all;
  {
    const std::lock_guard lock(lists_mutex_);
    all = ran_;
  }
  std::string text;
  for (const Ran& ran : all) {
    const auto function = ran.function.lock();
    const auto concrete = ran.concrete.lock();
    if (!function || !concrete) continue;
    const auto& pipeline = concrete->pipeline;
    text += fmt::format("a run on {} rows in each {}\n", ran.rows,
                        pipeline ? "micro-batch" : "replica");
    if (pipeline) {
      text += pipeline->explain_axes(ran.rows);
    } else {
      const graph::AxisSums sums = axis_sums(*concrete->segments[0].program, ran.rows);
      text += sums.model.line("along the model's axis") + sums.data.line("along the data axis") +
              sums.all.line("over all replicas");
    }
    for (const MemoryPlan::Device& device : function->memory_plan(*concrete, ran.rows).devices) {
      text += fmt::format("{} takes {} at most\n", device.name,
                          graph::scaled(static_cast<double>(device.bytes()), "B"));
    }
  }
  return text;
}

std::shared_ptr<Tensors> Strategy::Body::recycled_list() const {
  std::lock_guard lock(lists_mutex_);
  for (const auto& list : lists_) {
    if (list.use_count() == 1) return list;
  }
  lists_.push_back(std::make_shared<Tensors>(static_cast<size_t>(local_replicas())));
  return lists_.back();
}

graph::ArgumentList Strategy::Body::listed(std::span<const PerReplica> arguments) const {
  using enum graph::Argument::Kind;
  graph::ArgumentList list;
  for (const PerReplica& argument : arguments) {
    const auto* values = argument.values().get();
    int count = values != nullptr ? static_cast<int>(values->size()) : argument.span().count;
    // A batch that was split before the number of micro-batches was chosen.
    if (automatic_ && values == nullptr && argument.is_split()) count = local_replicas();
    const bool is_ours = values != nullptr || !argument.is_split() || automatic_ != nullptr ||
                         argument.span() == span();
    if (!is_ours || (count != 0 && count != local_replicas())) {
      throw InvalidArgument(
          fmt::format("run: an argument has values for {} replicas, the strategy has {}", count,
                      local_replicas()));
    }
    if (values != nullptr) {
      list.push_back({values->data(), own});
    } else if (argument.is_split()) {
      list.push_back({&argument.whole(), rows, argument.place().begin_row});
    } else {
      list.push_back({&argument.whole(), same});
    }
  }
  return list;
}

/// The rows of a replica's part of the batch: all arguments that differ between replicas must agree
/// on it. Negative where none has a leading axis.
int64_t Strategy::Body::own_rows_of(std::span<const PerReplica> arguments, int replica) const {
  int64_t rows = -1;
  for (const PerReplica& argument : arguments) {
    int64_t own = -1;
    if (argument.values()) {
      const Tensor& value = (*argument.values())[static_cast<size_t>(replica)];
      if (value.rank() > 0) own = value.shape().extent(0);
    } else if (argument.is_split()) {
      own = graph::shard_of(argument.place().global_rows, span().shard_of(replica), span().shards())
                .rows;
    }
    if (own < 0) continue;
    if (rows >= 0 && rows != own) {
      throw InvalidArgument(fmt::format(
          "run: arguments of replica {} ({}) differ in rows, {} and {}", span().first + replica,
          devices()[static_cast<size_t>(replica)]->name(), rows, own));
    }
    rows = own;
  }
  return rows;
}

/// Where this process's rows lie in the batch of all. Values of replicas may not know it; then the
/// processes tell each other how many they have.
BatchPlace Strategy::Body::place_of(std::span<const PerReplica> arguments, int64_t own_rows) const {
  for (const PerReplica& argument : arguments) {
    if (argument.place().global_rows >= 0) return argument.place();
  }
  if (other_replicas() == nullptr) return {.global_rows = own_rows};
  BatchPlace place{.global_rows = 0};
  const std::vector<int64_t> all = workers_->all_of(own_rows, "rows of the batch");
  // The processes along a mesh's axis of weights have the same rows.
  const int together = span().count < span().model ? span().model : 1;
  for (int rank = 0; rank < workers_->size(); rank += together) {
    const int64_t rows = all[static_cast<size_t>(rank)];
    if (rank / together < workers_->rank() / together) place.begin_row += rows;
    place.global_rows += rows;
  }
  return place;
}

/// Throws InvalidArgument where a replica's rows are not those of its neighbour along the model.
void Strategy::Body::check_same_rows(int replica, int64_t rows, int64_t neighbours) const {
  if (rows == neighbours) return;
  throw InvalidArgument(fmt::format(
      "run: replica {} ({}) has {} rows, its neighbour {}; they have the same ones, each with its "
      "parts of the weights",
      replica, devices()[static_cast<size_t>(replica)]->name(), rows, neighbours));
}

/// The part of the batch that each replica has; where no argument differs between replicas, each
/// has a batch of its own.
Strategy::Body::BatchRows Strategy::Body::rows_of(std::span<const PerReplica> arguments) const {
  const bool has_batch = std::ranges::any_of(
      arguments, [](const PerReplica& each) { return each.values() || each.is_split(); });
  BatchRows batch{.shards = {}, .global_rows = 0};
  if (!has_batch) {
    const auto first = std::ranges::find_if(
        arguments, [](const PerReplica& each) { return each.whole().rank() > 0; });
    const int64_t rows = first == arguments.end() ? 1 : first->whole().shape().extent(0);
    for (int r = 0; r < local_replicas(); ++r) {
      batch.shards.push_back({rows, span().shard_of(r) * rows});
    }
    batch.global_rows = rows * span().shards();
    return batch;
  }
  int64_t own_rows = 0;
  graph::Shards shards;
  for (int r = 0; r < local_replicas(); ++r) {
    const int64_t rows = std::max<int64_t>(own_rows_of(arguments, r), 0);
    if (r % span().model > 0) {
      const graph::BatchShard neighbour = shards[static_cast<size_t>(r) - 1];
      check_same_rows(r, rows, neighbour.rows);
      shards.push_back(neighbour);
      continue;
    }
    shards.push_back({rows, own_rows});
    own_rows += rows;
  }
  const BatchPlace place = place_of(arguments, own_rows);
  // A batch that every process has whole begins with other processes' rows.
  const bool is_dealt = std::ranges::any_of(arguments, &PerReplica::is_split);
  const int64_t begin =
      is_dealt ? graph::shard_of(place.global_rows, span().shard_of(0), span().shards()).row_offset
               : place.begin_row;
  for (const graph::BatchShard& shard : shards) {
    batch.shards.push_back({shard.rows, begin + shard.row_offset});
  }
  batch.global_rows = place.global_rows;
  return batch;
}

void Strategy::Body::check_types(const graph::ConcreteFunction& concrete,
                                 std::span<const graph::Argument> arguments) const {
  for (int r = 0; r < local_replicas(); ++r) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].kind != graph::Argument::Kind::own) continue;
      const Tensor& value = arguments[i].of(r);
      const op::TensorType& traced = concrete.arguments[i];
      if (fits(value, traced)) continue;
      throw InvalidArgument(fmt::format(
          "run: argument {} is {} on replica {} ({}), but {} on "
          "replica 0",
          i, type_of(value).str(), r, devices()[static_cast<size_t>(r)]->name(), traced.str()));
    }
  }
}

}  // namespace tandem::distribute
