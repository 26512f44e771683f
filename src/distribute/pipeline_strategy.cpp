#include "distribute/pipeline_strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "distribute/agreement_word.h"
#include "distribute/multi_worker.h"
#include "distribute/strategy_body.h"
#include "distribute/strategy_devices.h"
#include "execution/pipeline/pipeline.h"
#include "tandem/error.h"
#include "tensor/late_values.h"

namespace tandem::distribute {
namespace {

using devices::DevicePtr;

constexpr const char* kName = "PipelineStrategy";

void check_microbatches(const char* strategy, int microbatches, size_t stages) {
  const size_t least = stages > 1 ? 2 : 1;
  if (microbatches >= static_cast<int>(least)) return;
  throw InvalidArgument(
      fmt::format("{}: {} micro-batch{} through {} stage{}; at least {} {} accepted, "
                  "PipelineOptions::automatic, "
                  "and with several stages several times as many are better",
                  strategy, microbatches, microbatches == 1 ? "" : "es", stages,
                  stages == 1 ? "" : "s", least, least == 1 ? "is" : "are"));
}

void check_layers(const char* strategy, const StageOptions& options, size_t stages) {
  const size_t chunks = stages * static_cast<size_t>(std::max(options.chunks, 1));
  if (options.layers.empty() || options.layers.size() == chunks) return;
  throw InvalidArgument(fmt::format("{}: {} lists of layers for {} {}", strategy,
                                    options.layers.size(), chunks,
                                    options.chunks > 1 ? "chunks" : "stages"));
}

StageOptions stage_options(const PipelineOptions& options) {
  return {.microbatches = options.microbatches,
          .schedule = options.schedule,
          .chunks = options.chunks,
          .layers = options.layers};
}

/// The devices of each stage of each pipeline, in one process.
std::vector<std::vector<DevicePtr>> own_devices(const PipelineOptions& options) {
  const std::vector<DevicePtr> devices = devices_for(kName, options.devices);
  if (options.replicas < 1 || static_cast<size_t>(options.replicas) > devices.size()) {
    throw InvalidArgument(
        fmt::format("PipelineStrategy: {} pipelines side by side on {} devices; at least 1 is "
                    "accepted, and a device for each of their stages",
                    options.replicas, devices.size()));
  }
  const size_t most = devices.size() / static_cast<size_t>(options.replicas);
  if (options.stages < 0 || static_cast<size_t>(options.stages) > most) {
    throw InvalidArgument(fmt::format(
        "PipelineStrategy: {} stages{}; 1 to {} are accepted, one on each device{}", options.stages,
        options.replicas == 1 ? std::string()
                              : fmt::format(" in each of {} pipelines on {} devices",
                                            options.replicas, devices.size()),
        most, options.devices.empty() ? "; config::set_logical_cpus makes more of the CPU" : ""));
  }
  const size_t stages = options.stages > 0 ? static_cast<size_t>(options.stages) : most;
  std::vector<std::vector<DevicePtr>> by_pipeline;
  for (size_t p = 0; p < static_cast<size_t>(options.replicas); ++p) {
    const auto begin = devices.begin() + static_cast<ptrdiff_t>(p * stages);
    by_pipeline.emplace_back(begin, begin + static_cast<ptrdiff_t>(stages));
  }
  return by_pipeline;
}

/// Deals the stages of all pipelines to processes, and those of this process to its devices.
graph::PipelineStages dealt_stages(const PipelineOptions& options, const op::Group& group) {
  const int replicas = options.replicas;
  const int stages = options.stages > 0 ? options.stages : group.size() / std::max(replicas, 1);
  const int all = stages * replicas;
  if (replicas < 1 || options.stages < 0 || all < group.size() || all % group.size() != 0) {
    throw InvalidArgument(fmt::format(
        "PipelineStrategy: {} pipelines of {} stages on {} processes; each has as many stages, and "
        "at least one",
        replicas, stages, group.size()));
  }
  const int each = all / group.size();
  const std::vector<DevicePtr> devices = dealt(devices_for(kName, options.devices), each);
  std::vector<std::vector<DevicePtr>> by_pipeline;
  graph::PipelineStages result;
  for (int p = 0; p < replicas; ++p) {
    by_pipeline.emplace_back();
    result.processes.emplace_back();
    for (int stage = 0; stage < stages; ++stage) {
      const int place = p * stages + stage;
      by_pipeline.back().push_back(devices[static_cast<size_t>(place % each)]);
      result.processes.back().push_back(place / each);
    }
  }
  result.devices = by_pipeline[0];
  result.beside.assign(by_pipeline.begin() + 1, by_pipeline.end());
  result.own_process = group.rank();
  result.all_processes.resize(static_cast<size_t>(group.size()));
  std::iota(result.all_processes.begin(), result.all_processes.end(), 0);
  result.homes = std::make_shared<graph::VariableHomes>();
  return result;
}

graph::PipelineStages stages_here(const PipelineOptions& options) {
  const std::vector<std::vector<DevicePtr>> devices = own_devices(options);
  graph::PipelineStages stages;
  stages.devices = devices[0];
  stages.beside.assign(devices.begin() + 1, devices.end());
  return stages;
}

graph::Replicas pipelined(const PipelineOptions& options, int microbatches,
                          const graph::PipelineStages& stages) {
  StageOptions chosen = stage_options(options);
  chosen.microbatches = microbatches;
  graph::Pipeline pipeline = make_pipeline(kName, chosen, stages);
  const int in_all = microbatches * options.replicas;
  const bool is_one_process = stages.homes == nullptr;
  if (in_all == 1 && is_one_process) return {.devices = stages.devices, .owner = next_owner()};
  return {.devices = std::vector(static_cast<size_t>(in_all), stages.devices[0]),
          .owner = next_owner(),
          .pipeline = std::make_shared<graph::Pipeline>(std::move(pipeline))};
}

std::shared_ptr<Strategy::Body> body_alone(const PipelineOptions& options) {
  const graph::PipelineStages stages = stages_here(options);
  return pipeline_body(kName, stage_options(options), static_cast<int>(stages.devices.size()),
                       [=](int microbatches) { return pipelined(options, microbatches, stages); });
}

/// Meets the others, who must want the same pipeline.
std::shared_ptr<const Strategy::Body> body_of(const std::shared_ptr<op::Group>& group,
                                              const PipelineOptions& options) {
  check_not_drawn(kName);
  const graph::PipelineStages stages = dealt_stages(options, *group);
  const auto agreement = std::make_shared<graph::Agreement>(AgreementWord(group->size()).numbers());
  const std::string own = fmt::format("{} stages, {}, {} pipelines", options.stages,
                                      stage_options(options).str(), options.replicas);
  const std::string difference = first_difference(group->gather_texts("joining", own), *group);
  if (!difference.empty()) {
    throw InvalidArgument(fmt::format("PipelineStrategy: {}", difference));
  }
  auto body = pipeline_body(kName, stage_options(options), static_cast<int>(stages.devices.size()),
                            [=](int microbatches) {
                              graph::Replicas replicas = pipelined(options, microbatches, stages);
                              replicas.group = group;
                              replicas.agreement = agreement;
                              return replicas;
                            });
  body->workers()->take_random_state();
  note_late_values(body->store());
  return body;
}

std::shared_ptr<op::Group> join_others(const PipelineOptions& options) {
  MultiWorkerOptions joining;
  joining.communication = options.communication;
  joining.cluster_resolver = options.cluster_resolver;
  return join_group(joining);
}

/// What keeps this process from taking part is told to the others, which wait for it.
std::shared_ptr<const Strategy::Body> body_for(const std::shared_ptr<op::Group>& group,
                                               const PipelineOptions& options) {
  if (!group || group->size() == 1) return body_alone(options);
  try {
    return body_of(group, options);
  } catch (...) {
    WorkerGroup(group, nullptr).abort_with_current_error();
    throw;
  }
}

}  // namespace

std::string StageOptions::str() const {
  std::string text = has_automatic_microbatches() ? "automatic" : std::to_string(microbatches);
  text += fmt::format(" micro-batches, schedule {}, {} chunks in a stage", schedule, chunks);
  for (const std::vector<std::string>& names : layers) {
    text += fmt::format(", layers {}", fmt::join(names, " "));
  }
  return text;
}

graph::Pipeline make_pipeline(const char* strategy, const StageOptions& options,
                              graph::PipelineStages stages) {
  check_microbatches(strategy, options.microbatches, stages.devices.size());
  check_layers(strategy, options, stages.devices.size());
  graph::Pipeline pipeline;
  pipeline.kind = graph::pipeline_kind(options.schedule);
  stages.chunks = options.chunks;
  stages.layers = options.layers;
  pipeline.stages = std::move(stages);
  make_schedule(pipeline.shape(options.microbatches));
  return pipeline;
}

std::shared_ptr<Strategy::Body> pipeline_body(const char* strategy, const StageOptions& options,
                                              int stages,
                                              const Strategy::Body::ReplicasOf& replicas_of) {
  const bool is_automatic = options.has_automatic_microbatches();
  auto body = std::make_shared<Strategy::Body>(
      strategy, replicas_of(is_automatic ? stages : options.microbatches));
  if (is_automatic) body->set_automatic_microbatches(replicas_of);
  return body;
}

PipelineStrategy pipeline_strategy(const std::shared_ptr<op::Group>& group,
                                   const PipelineOptions& options) {
  return PipelineStrategy(body_for(group, options));
}

PipelineStrategy::PipelineStrategy(const PipelineOptions& options)
    : Strategy(body_for(join_others(options), options)) {}

}  // namespace tandem::distribute
