#include "distribute/pipeline_strategy.h"

#include <fmt/format.h>

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

void check_microbatches(const PipelineOptions& options, size_t stages) {
  if (options.microbatches < 1) {
    throw InvalidArgument(fmt::format("PipelineStrategy: {} micro-batches; at least 1 is accepted",
                                      options.microbatches));
  }
  if (options.microbatches == 1 && stages > 1) {
    throw InvalidArgument(fmt::format(
        "PipelineStrategy: 1 micro-batch through {} stages, of which one would work at a time; at "
        "least 2 are accepted, and several times the number of stages are better",
        stages));
  }
}

void check_layers(const PipelineOptions& options, size_t stages) {
  const size_t chunks = stages * static_cast<size_t>(std::max(options.chunks, 1));
  if (options.layers.empty() || options.layers.size() == chunks) return;
  throw InvalidArgument(fmt::format("PipelineStrategy: {} lists of layers for {} {}",
                                    options.layers.size(), chunks,
                                    options.chunks > 1 ? "chunks" : "stages"));
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
        "PipelineStrategy: {} stages; 1 to {} are accepted, one on each device{}", options.stages,
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

graph::Replicas pipelined(const PipelineOptions& options, graph::PipelineStages stages) {
  graph::Pipeline pipeline;
  pipeline.kind = graph::pipeline_kind(options.schedule);
  check_microbatches(options, stages.devices.size());
  check_layers(options, stages.devices.size());
  stages.chunks = options.chunks;
  stages.layers = options.layers;
  const std::vector<DevicePtr> devices = stages.devices;
  const bool is_one_process = stages.homes == nullptr;
  pipeline.stages = std::move(stages);
  make_schedule(pipeline.shape(options.microbatches));
  const int microbatches = options.microbatches * options.replicas;
  if (microbatches == 1 && is_one_process) return {.devices = devices, .owner = next_owner()};
  return {.devices = std::vector(static_cast<size_t>(microbatches), devices[0]),
          .owner = next_owner(),
          .pipeline = std::make_shared<graph::Pipeline>(std::move(pipeline))};
}

/// Meets the others, who must want the same pipeline.
std::shared_ptr<const Strategy::Body> body_of(const std::shared_ptr<op::Group>& group,
                                              const PipelineOptions& options) {
  check_not_drawn(kName);
  graph::Replicas replicas = pipelined(options, dealt_stages(options, *group));
  const std::string own =
      fmt::format("{} stages, {} micro-batches, schedule {}, {} pipelines", options.stages,
                  options.microbatches, options.schedule, options.replicas);
  const std::string difference = first_difference(group->gather_texts("joining", own), *group);
  if (!difference.empty()) {
    throw InvalidArgument(fmt::format("PipelineStrategy: {}", difference));
  }
  replicas.group = group;
  replicas.agreement = std::make_shared<graph::Agreement>(AgreementWord(group->size()).numbers());
  const bool is_cpu = replicas.devices[0]->works_on_threads();
  auto body = std::make_shared<const Strategy::Body>(kName, std::move(replicas));
  body->workers()->take_random_state();
  if (is_cpu) note_late_values(body->store());
  return body;
}

std::shared_ptr<op::Group> join_others(const PipelineOptions& options) {
  MultiWorkerOptions joining;
  joining.communication = options.communication;
  joining.cluster_resolver = options.cluster_resolver;
  return join_group(joining);
}

std::shared_ptr<const Strategy::Body> with_automatic_microbatches(const PipelineOptions& options) {
  if (options.stages != 1 || options.replicas != 1) {
    throw InvalidArgument(fmt::format(
        "PipelineStrategy: {} pipelines of {} stages with automatic micro-batches; one of one "
        "stage is accepted",
        options.replicas, options.stages));
  }
  const auto replicas_of = [options](int microbatches) {
    PipelineOptions chosen = options;
    chosen.microbatches = microbatches;
    return pipelined(chosen, stages_here(chosen));
  };
  auto body = std::make_shared<Strategy::Body>(kName, replicas_of(1));
  body->set_automatic_microbatches(replicas_of);
  return body;
}

/// What keeps this process from taking part is told to the others, which wait for it.
std::shared_ptr<const Strategy::Body> body_for(const std::shared_ptr<op::Group>& group,
                                               const PipelineOptions& options) {
  if (!group || group->size() == 1) {
    if (options.microbatches == PipelineOptions::automatic) {
      return with_automatic_microbatches(options);
    }
    return std::make_shared<const Strategy::Body>(kName, pipelined(options, stages_here(options)));
  }
  try {
    return body_of(group, options);
  } catch (...) {
    WorkerGroup(group, nullptr).abort_with_current_error();
    throw;
  }
}

}  // namespace

PipelineStrategy pipeline_strategy(const std::shared_ptr<op::Group>& group,
                                   const PipelineOptions& options) {
  return PipelineStrategy(body_for(group, options));
}

PipelineStrategy::PipelineStrategy(const PipelineOptions& options)
    : Strategy(body_for(join_others(options), options)) {}

}  // namespace tandem::distribute
