// The public handle Strategy: how values are split over replicas, run there, and brought together
// again.
#include "tandem/distribute/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "device/task.h"
#include "distribute/context.h"
#include "distribute/server/server_training.h"
#include "distribute/strategy_body.h"
#include "execution/pipeline/pipeline.h"
#include "execution/reduction_choice.h"
#include "graph/program.h"
#include "runtime/shared_team.h"
#include "tandem/config.h"
#include "tandem/distribute/mesh.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::distribute {
namespace {

/// Calls a function for each replica on the first thread of the replica's subteam.
class InputJob final : public core::Job {
 public:
  InputJob(std::function<Tensor(const ValueContext&)> f, const ReplicaSpan& span)
      : f_(std::move(f)), span_(span), values_(static_cast<size_t>(span.count)) {}

  void play(core::TeamThread& thread) override {
    for (const core::Members& members : thread.members()) {
      if (members.rank != 0) continue;
      thread.playing(members);
      thread.doing("its input");
      values_[static_cast<size_t>(members.subteam)] =
          f_({span_.first + members.subteam, span_.all});
    }
  }

  /// What the function does is its own affair.
  bool may_wait() const override { return true; }

  Tensors take() { return std::move(values_); }

 private:
  const std::function<Tensor(const ValueContext&)> f_;
  const ReplicaSpan span_;
  Tensors values_;
};

int64_t length(const Tensor& tensor, int axis) {
  return tensor.shape().extent(axis < 0 ? axis + tensor.rank() : axis);
}

void check_axis(const char* what, const Tensor& value, int axis) {
  if (axis >= -value.rank() && axis < value.rank()) return;
  throw InvalidArgument(fmt::format("{}: axis {} of a value of shape {}; from {} to {} is accepted",
                                    what, axis, value.shape().str(), -value.rank(),
                                    value.rank() - 1));
}

/// How bytes get from GPU to GPU, where a strategy has several.
std::string links_between(const std::vector<std::string>& names) {
  const auto has = [&](const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  std::set<std::string> kinds;
  for (const config::DeviceLink& link : config::list_device_links()) {
    if (has(link.from) && has(link.to)) kinds.insert(link.kind);
  }
  if (kinds.empty()) return {};
  return fmt::format("links between the GPUs: {}\n", fmt::join(kinds, ", "));
}

/// The members of a stage: devices of this process, or processes.
std::vector<std::string> names_of_members(const graph::Replicas& replicas, int stage,
                                          int pipeline) {
  const graph::PipelineStages& stages = replicas.pipeline->stages;
  std::vector<std::string> names;
  if (stages.member_processes > 1 || !stages.is_here(stage, pipeline)) {
    for (int rank : stages.with_members(stages.process_of(stage, pipeline))) {
      names.push_back(replicas.group->describe(rank));
    }
    return names;
  }
  for (const auto& member : stages.members_of(stage, pipeline)) {
    names.push_back(devices::full_name(*member));
  }
  return names;
}

/// What is kept in parts of a large variable that no layout cuts, and how many parts there are.
struct StateInParts {
  const char* what = nullptr;  ///< Null: nothing.
  int parts = 1;

  explicit StateInParts(const Store& store) {
    const Sharding sharding = store.sharding_of("", Shape{int64_t{1} << 40});
    parts = std::max(sharding.value.parts, sharding.slots.parts);
    if (parts == 1) return;
    what = !sharding.value.is_whole() ? "variables, slots and sums of gradients"
           : sharding.gradients       ? "slots and sums of gradients"
                                      : "slots";
  }
};

/// Which part of the batch and of the weights each device of a mesh has.
std::string explain_places(const Strategy::Body& body) {
  const ReplicaSpan span = body.span();
  const StateInParts state(*body.store());
  std::string text;
  const auto add = [&](const std::string& device, int shard, int shards, int part, int number) {
    text += fmt::format("  {} has shard {} of {} of the batch, part {} of {} of the weights",
                        device, shard, shards, part, span.model);
    if (state.what != nullptr) {
      text += fmt::format(", part {} of {} of {}", number, state.parts, state.what);
    }
    text += "\n";
  };
  if (const auto& pipeline = body.targets().pipeline) {
    const graph::PipelineStages& stages = pipeline->stages;
    for (int p = 0; p < stages.pipelines(); ++p) {
      for (size_t stage = 0; stage < stages.devices.size(); ++stage) {
        const auto members = names_of_members(body.targets(), static_cast<int>(stage), p);
        for (size_t k = 0; k < members.size(); ++k) {
          const int member = static_cast<int>(k);
          add(members[k], p + member / stages.model(), stages.parts_of_batch(),
              member % stages.model(), member);
        }
      }
    }
    return text;
  }
  for (int r = 0; r < span.count; ++r) {
    add(devices::full_name(*body.devices()[static_cast<size_t>(r)]), span.shard_of(r),
        span.shards(), (span.first + r) % span.model, span.first + r);
  }
  return text;
}

/// The axes of a mesh, which parts its devices have, and which weights are cut.
std::string explain_mesh(const LayoutMap& layouts, const Strategy::Body& body) {
  std::string text = fmt::format("mesh: {}\n", layouts.device_mesh().str()) + explain_places(body);
  const auto& pipeline = body.targets().pipeline;
  const char* keeper = !pipeline                ? "device"
                       : pipeline->stages.homes ? "process of the stages that use it"
                                                : "device of a stage";
  for (const auto& [key, layout] : layouts.items()) {
    text += fmt::format("  variables '{}' are cut {}, each {} keeps its part\n", key, layout.str(),
                        keeper);
  }
  return text;
}

/// Which device holds how much of the variables that there are by now, and of their slots.
std::string explain_memory(const Strategy::Body& body) {
  std::map<std::string, HeldBytes> all = body.store()->held_bytes();
  for (const auto& store : body.stage_stores()) {
    for (const auto& [device, held] : store->held_bytes()) {
      all[device].variables += held.variables;
      all[device].slots += held.slots;
    }
  }
  std::string text;
  for (const auto& [device, held] : all) {
    text += fmt::format("{} holds {} of variables and {} of slots\n", device,
                        graph::scaled(static_cast<double>(held.variables), "B"),
                        graph::scaled(static_cast<double>(held.slots), "B"));
  }
  return text;
}

std::string explain_pipeline(const std::string& name, const graph::Replicas& replicas) {
  const graph::PipelineStages& stages = replicas.pipeline->stages;
  const graph::PipelineShape shape =
      replicas.pipeline->shape(replicas.count() / stages.pipelines() / stages.members_in_all());
  const graph::PipelineSchedule schedule = graph::make_schedule(shape);
  const graph::PipelineReport report = graph::check_schedule(shape, schedule);
  std::string text = fmt::format(
      "{}: {} micro-batches{}\n", name, shape.microbatches,
      stages.beside.empty() ? "" : fmt::format(" in each of {} pipelines", stages.pipelines()));
  for (int stage = 0; stage < shape.stages; ++stage) {
    const auto s = static_cast<size_t>(stage);
    std::vector<std::string> names;
    for (int p = 0; p < stages.pipelines(); ++p) {
      for (std::string& name : names_of_members(replicas, stage, p)) {
        names.push_back(std::move(name));
      }
    }
    text += fmt::format("  stage {} on {}, activations of {:.3g} micro-batches at most\n", stage,
                        fmt::join(names, " and "), report.held[s]);
  }
  if (shape.stages > 1) {
    text += fmt::format("schedule {}, stages wait {:.0f} % of the time:\n{}",
                        graph::name_of(shape.kind), 100 * report.bubble,
                        graph::picture_of(shape, schedule));
  }
  return text + "gradients are summed in time, and the variables change once a batch\n";
}

}  // namespace

int Strategy::num_replicas_in_sync() const { return body_->span().shards(); }

bool Strategy::is_chief() const {
  if (const ServerTraining* servers = body_->servers()) return servers->leads();
  return body_->workers() == nullptr || body_->workers()->is_chief();
}

const std::string& Strategy::name() const { return body_->name(); }

std::vector<std::string> Strategy::devices() const {
  std::vector<std::string> names;
  for (const auto& device : body_->devices()) names.push_back(devices::full_name(*device));
  return names;
}

std::string Strategy::explain() const {
  if (body_->is_default()) return "the default strategy: one replica, placed op by op\n";
  const graph::Replicas& replicas = body_->targets();
  if (replicas.pipeline) {
    std::string text = explain_pipeline(name(), replicas);
    if (const LayoutMap* layouts = body_->layouts()) text += explain_mesh(*layouts, *body_);
    return text + explain_memory(*body_) + body_->explain_runs();
  }
  std::string text =
      fmt::format("{}: {} replica{}\n", name(), replicas.count(), replicas.count() == 1 ? "" : "s");
  for (int r = 0; r < replicas.local(); ++r) {
    const devices::Device& device = *replicas.devices[static_cast<size_t>(r)];
    const int threads = replicas.single_threaded ? 1 : device.threads();
    text += fmt::format("  replica {} on {}, {} thread{}\n", replicas.first + r,
                        devices::full_name(device), threads, threads == 1 ? "" : "s");
  }
  if (const LayoutMap* layouts = body_->layouts()) text += explain_mesh(*layouts, *body_);
  text += explain_memory(*body_) + body_->explain_runs();
  if (const WorkerGroup* workers = body_->workers()) {
    text += fmt::format(
        "this process is {} of {}; replicas of a process are summed first, then one thread "
        "exchanges the sums with the other processes\n",
        workers->group().describe(workers->rank()), workers->size());
  }
  if (const ServerTraining* servers = body_->servers()) return text + servers->explain();
  if (replicas.central) text += fmt::format("variables on {}\n", replicas.central->name());
  text += links_between(devices());
  if (body_->shares_memory()) {
    text +=
        "gradients are summed where they lie, each thread a range, since all replicas share "
        "memory\n";
  } else if (replicas.central) {
    text += "gradients are summed there, since the variables are there alone\n";
  } else if (const auto library = graph::library_sums(replicas); library.is_linked) {
    text += fmt::format("gradients are summed by NCCL, since all GPUs are linked by {}\n",
                        library.text);
  } else if (replicas.reduction == CrossDeviceReduction::automatic) {
    if (!library.text.empty()) {
      text +=
          fmt::format("gradients are summed by our own copies and not by NCCL, {}\n", library.text);
    }
    text +=
        "gradients cross memory spaces: by ranges or over one device, as their size says; see the "
        "function's explain()\n";
  } else {
    text += fmt::format(
        "gradients cross memory spaces: {}, as the options say\n",
        replicas.reduction == CrossDeviceReduction::ranges ? "by ranges" : "over one device");
  }
  return text;
}

PerReplica Strategy::split(const Tensor& batch) const {
  return PerReplica::split(batch, body_->span());
}

PerReplicas Strategy::split(const Tensors& batch) const {
  PerReplicas parts;
  for (const Tensor& tensor : batch) parts.push_back(split(tensor));
  return parts;
}

PerReplica Strategy::values_from_function(
    const std::function<Tensor(const ValueContext&)>& f) const {
  if (body_->is_default()) return PerReplica(Tensors{f({})});
  // Devices that compute by themselves lend no threads: their replicas get one each for this.
  const bool lend_theirs = std::ranges::all_of(
      body_->devices(), [](const auto& device) { return device->works_on_threads(); });
  const bool single = body_->targets().single_threaded || !lend_theirs;
  auto job = std::make_shared<InputJob>(f, body_->span());
  // The function may do anything, so nothing else runs beside it.
  runtime::shared_team(body_->devices(), single)->run(job, {.writes_variables = true});
  return PerReplica(job->take());
}

void Strategy::check_count(size_t wanted, size_t given) {
  if (wanted == given) return;
  throw InvalidArgument(
      fmt::format("run: the batch has {} tensors, the function takes {}", given, wanted));
}

PerReplicas Strategy::run_flat(const FlatFunction& f, std::span<const PerReplica> arguments) const {
  PerReplicas results;
  if (body_->is_default()) {
    Tensors tensors;
    for (const PerReplica& argument : arguments) tensors.push_back(argument.value(0));
    for (Tensor& result : f(tensors)) results.emplace_back(Tensors{std::move(result)});
    return results;
  }
  if (ServerTraining* servers = body_->servers()) {
    if (servers->trains(f, arguments)) return servers->run(f, {arguments.begin(), arguments.end()});
    servers->bring_variables();
  }
  const graph::Results ran = body_->run(*this, f, arguments);
  for (size_t i = 0; i < ran.count(); ++i) {
    Tensors values;
    for (int r = 0; r < body_->local_replicas(); ++r) values.push_back(ran.at(r, i));
    results.emplace_back(std::move(values));
  }
  return results;
}

PerReplica Strategy::run_single(const FlatFunction& f,
                                std::span<const PerReplica> arguments) const {
  if (body_->is_default() || body_->servers() != nullptr) return run_flat(f, arguments)[0];
  const graph::Results results = body_->run(*this, f, arguments);
  std::shared_ptr<Tensors> values = body_->recycled_list();
  for (int r = 0; r < body_->local_replicas(); ++r) {
    (*values)[static_cast<size_t>(r)] = results.at(r, 0);
  }
  return PerReplica(std::shared_ptr<const Tensors>(std::move(values)));
}

Tensors Strategy::local_results(const PerReplica& value) const {
  check_cross_replica("local_results");
  if (is_merging()) return {value.value(0)};
  Tensors values;
  for (int r = 0; r < body_->local_replicas(); ++r) values.push_back(value.value(r));
  if (!body_->shares_memory()) {
    for (Tensor& own : values) own = on_device(own, devices::host_device());
  }
  return values;
}

/// The first one's of the values of replicas that have the same rows.
Tensors Strategy::of_each_shard(const Tensors& values) const {
  Tensors chosen;
  for (size_t r = 0; r < values.size(); r += static_cast<size_t>(body_->span().model)) {
    chosen.push_back(values[r]);
  }
  return chosen;
}

Tensor Strategy::reduce(ReduceOp op, const PerReplica& value, std::optional<int> axis) const {
  check_cross_replica("reduce");
  if (is_merging()) {
    const Tensor own = value.value(0);
    if (!axis) return all_reduced(op, own);
    check_axis("reduce", own, *axis);
    const ReduceOptions along{.axes = std::vector<int>{*axis}};
    const Tensor sum = all_reduced(ReduceOp::sum, reduce_sum(own, along));
    if (op == ReduceOp::mean) {
      return sum / all_reduced(ReduceOp::sum, reduce_sum(ones_like(own), along));
    }
    const int model = body_->span().model;
    return model == 1 ? sum : sum * (1.0 / model);
  }
  Tensor sum;
  int64_t count = 0;
  for (const Tensor& own : axis ? of_each_shard(local_results(value)) : local_results(value)) {
    if (axis) check_axis("reduce", own, *axis);
    const Tensor part = axis ? reduce_sum(own, {.axes = std::vector<int>{*axis}}) : own;
    if (sum.defined() && sum.shape() != part.shape()) {
      throw InvalidArgument(
          fmt::format("reduce: the replicas' values{} have shapes {} and {}; they must be equal{}",
                      axis ? ", summed along the axis," : "", sum.shape().str(), part.shape().str(),
                      axis ? "" : ", or an axis given to reduce them along"));
    }
    count += axis ? length(own, *axis) : 1;
    sum = sum.defined() ? add(sum, part) : part;
  }
  if (const WorkerGroup* workers = body_->other_replicas()) {
    // Rows that several processes have count once.
    const ReplicaSpan span = body_->span();
    if (axis && span.first % span.model != 0) {
      sum = zeros_like(sum);
      count = 0;
    }
    sum = workers->sum(sum, "reduce");
    if (op == ReduceOp::mean) {
      const std::vector<int64_t> counts = workers->all_of(count, "reduce");
      count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    }
  }
  return op == ReduceOp::sum ? sum : sum * (1.0 / static_cast<double>(count));
}

Tensor Strategy::gather(const PerReplica& value, int axis) const {
  check_cross_replica("gather");
  Tensors values = local_results(value);
  check_axis("gather", values[0], axis);
  if (is_merging()) return all_gathered(values[0], axis);
  values = of_each_shard(values);
  const Tensor own = values.size() == 1 ? values[0] : concat(values, axis);
  const WorkerGroup* workers = body_->other_replicas();
  if (workers == nullptr) return own;
  const int along = axis < 0 ? axis + own.rank() : axis;
  const Tensors all = workers->gather(own, along, "gather");
  const ReplicaSpan span = body_->span();
  return concat(span.count < span.model ? of_each_shard(all) : all, axis);
}

}  // namespace tandem::distribute
