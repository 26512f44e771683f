// What a pipeline says of itself: who runs what, what processes tell each other, how much memory it
// takes, and the text by which processes find out whether theirs is the same.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "execution/pipeline/pipeline_run.h"
#include "execution/pipeline/pipeline_wiring.h"
#include "graph/axis_sums.h"

namespace tandem::graph {

std::string PipelineRun::explain(const std::string& function, int64_t rows) const {
  const PipelineReport report = check_schedule(shape_, schedule_);
  const std::vector<CompiledSegment>& segments = function_.each[0];
  std::string text;
  if (pipelines() > 1) text = fmt::format("{} pipelines side by side, each of ", pipelines());
  text += fmt::format("{} micro-batches", shape_.microbatches);
  if (shape_.stages > 1) {
    text += fmt::format(" through {} stages, schedule {}: stages wait {:.0f} % of the time\n{}",
                        shape_.stages, name_of(shape_.kind), 100 * report.bubble,
                        picture_of(shape_, schedule_));
  } else {
    text += " one after another\n";
  }
  text += function_.chunks_text + explain_copies();
  if (group_) text += explain_processes() + "\n" + explain_messages(rows);
  for (const MemoryPlan::Device& device : memory_plan(rows).devices) {
    text += fmt::format("{}: {} at most for {} rows in each micro-batch\n", device.name,
                        scaled(static_cast<double>(device.bytes()), "B"), rows);
  }
  for (const CompiledSegment& first : function_.first) {
    text += "before all others, for each micro-batch, " + first.executions->explain(function);
  }
  const size_t chunks = (segments.size() + 1) / 2;
  for (size_t s = 0; s < segments.size(); ++s) {
    if (!segments[s].program) continue;
    const char* pass = s + 1 == chunks ? "forward and backward"
                       : s < chunks    ? "forward"
                                       : "backward";
    text += fmt::format("chunk {}, {}, for each micro-batch, ", chunk_of(s), pass);
    text += segments[s].executions->explain(function);
  }
  for (const CompiledLevel& level : function_.once) {
    for (const CompiledSegment& segment : level.segments) {
      text += "once, " + segment.executions->explain(function);
    }
  }
  return group_ ? text : text + explain_edges(segments, function_.arguments, rows);
}

/// "stage 0 is on rank 0 (..), stage 1 on rank 1 (..)"
std::string PipelineRun::explain_processes() const {
  std::string text;
  for (int p = 0; p < pipelines(); ++p) {
    for (int stage = 0; stage < shape_.stages; ++stage) {
      std::string members;
      for (int rank : stages().with_members(stages().process_of(stage, p))) {
        members += fmt::format("{}{}", members.empty() ? "" : " and ", group_->describe(rank));
      }
      text += fmt::format("{}stage {}{} is on {}", text.empty() ? "" : ", ", stage,
                          pipelines() > 1 ? fmt::format(" of pipeline {}", p) : "", members);
    }
  }
  return text;
}

/// What processes tell each other in a run, a line for each two of them.
std::string PipelineRun::explain_messages(int64_t rows) const {
  std::map<std::pair<int, int>, size_t> bytes;
  for (size_t p = 0; p < function_.each.size(); ++p) {
    for (size_t s = 0; s < function_.each[p].size(); ++s) {
      const int from = stages().process_of(chunk_of(s), static_cast<int>(p));
      for (const Wiring::Sending& sending : wiring_->sendings[p][s]) {
        for (int tensor : sending.tensors) {
          const size_t index = static_cast<size_t>(tensor) - wiring_->first_result[s];
          bytes[{from, sending.to}] += function_.result_types[s][index].bytes(rows) *
                                       static_cast<size_t>(shape_.microbatches);
        }
      }
    }
  }
  for (const CompiledLevel& level : function_.once) {
    for (const ProcessCrossing& crossing : level.crossings) {
      for (int to : crossing.to) bytes[{crossing.from, to}] += crossing.type.bytes();
    }
  }
  std::string text;
  for (const auto& [ranks, count] : bytes) {
    text += fmt::format("{} to {}: {} a run with {} rows in each micro-batch\n",
                        group_->describe(ranks.first), group_->describe(ranks.second),
                        scaled(static_cast<double>(count), "B"), rows);
  }
  return text;
}

std::string PipelineRun::explain_axes(int64_t rows) const {
  ToldAlong between_stages, between_pipelines;
  AxisSums of_members;
  const int model = stages().data > 1 ? stages().model() : 0;
  const std::vector<CompiledSegment>& segments = function_.each[0];
  std::set<std::pair<int, int>> handed;  // A tensor, and the stage that gets it.
  for (size_t s = 0; s < segments.size(); ++s) {
    const int stage = chunk_of(s) % shape_.stages;
    for (int input : segments[s].inputs) {
      const size_t from = wiring_->producer_of(input);
      const bool crosses = from < segments.size() && chunk_of(from) % shape_.stages != stage;
      if (!crosses || !handed.emplace(input, stage).second) continue;
      const size_t index = static_cast<size_t>(input) - wiring_->first_result[from];
      between_stages.add({function_.result_types[from][index]}, rows);
    }
  }
  for (size_t p = 0; p < function_.each.size(); ++p) {
    for (const CompiledSegment& segment : function_.each[p]) {
      if (!segment.program) continue;
      of_members.add(axis_sums(*segment.program, rows, model), shape_.microbatches);
      for (const Node& node : segment.program->graph().nodes) {
        const bool is_sum = node.op().name == "accumulate" && pipelines() > 1;
        if (is_sum) between_pipelines.add({node.signature.inputs[0]}, rows);
      }
    }
  }
  for (const CompiledLevel& level : function_.once) {
    for (const CompiledSegment& segment : level.segments) {
      of_members.add(axis_sums(*segment.program, rows, model), 1);
    }
  }
  const bool has_axes = model > 0;
  const std::string between_members =
      of_members.model.line(has_axes ? "along the model's axis"
                                     : "between the members of a stage") +
      of_members.data.line("along the data axis") +
      of_members.all.line("over all members of a stage");
  return between_stages.times(microbatches()).line("between stages", "tensors") + between_members +
         between_pipelines.line("between pipelines", "terms of sums");
}

std::string PipelineRun::fingerprint() const {
  std::string text =
      fmt::format("{} micro-batches, {} stages, schedule {}, {} pipelines\n", shape_.microbatches,
                  shape_.stages, name_of(shape_.kind), pipelines());
  for (const op::TensorTypes& types : function_.result_types) {
    text += fmt::format("a pass makes {}\n", listed(types));
  }
  for (const CompiledLevel& level : function_.once) {
    for (const ProcessCrossing& crossing : level.crossings) {
      text += fmt::format("{} crosses from rank {}\n", crossing.type.str(),
                          stages().with_members(crossing.from).front());
    }
  }
  for (const KeptVariable& variable : function_.kept) {
    text += fmt::format("variable {}, {} elements, is kept by {} ranks from {}\n",
                        variable.range.name(), variable.range.count, variable.processes.size(),
                        variable.processes.front());
  }
  return text;
}

namespace {

/// Adds what a plan has of each device to that of another one.
void add(MemoryPlan& all, const MemoryPlan& more) {
  for (const MemoryPlan::Device& own : more.devices) {
    const auto device = std::ranges::find(all.devices, own.name, &MemoryPlan::Device::name);
    if (device == all.devices.end()) {
      all.devices.push_back(own);
      continue;
    }
    device->arena_bytes += own.arena_bytes;
    device->result_bytes += own.result_bytes;
    device->copy_bytes += own.copy_bytes;
  }
}

}  // namespace

/// The memory of a stage of this process with one micro-batch under way, where others are
/// elsewhere: what its segments take, and what it gets of other processes.
MemoryPlan PipelineRun::plan_of_stage(size_t pipeline, int stage, int64_t rows) const {
  const std::vector<CompiledSegment>& segments = function_.each[pipeline];
  std::vector<CompiledSegment> own;
  std::set<int> received;
  for (size_t s = 0; s < segments.size(); ++s) {
    if (chunk_of(s) % shape_.stages != stage) continue;
    own.push_back(segments[s]);
    for (int input : std::exchange(own.back().inputs, {})) {
      const size_t from = wiring_->producer_of(input);
      if (from < segments.size() && !is_here(pipeline, from)) received.insert(input);
    }
  }
  MemoryPlan plan = memory_plan_of(own, 0, rows);
  for (int tensor : received) {
    const size_t from = wiring_->producer_of(tensor);
    const size_t index = static_cast<size_t>(tensor) - wiring_->first_result[from];
    plan.devices[0].result_bytes +=
        devices::Allocator::rounded(function_.result_types[from][index].bytes(rows));
  }
  return plan;
}

/// The memory that variables of this process take when the first run begins.
MemoryPlan PipelineRun::plan_of_variables() const {
  MemoryPlan plan;
  std::set<const StoreBlock*> counted;
  for (const KeptVariable& variable : function_.kept) {
    const StoreBlock& block = *variable.range.block;
    if (block.has_memory() || !includes(variable.processes, group_->rank())) continue;
    if (!counted.insert(&block).second) continue;
    for (const std::shared_ptr<Buffer>& component : block.components()) {
      add(plan, {.devices = {{.name = component->device()->name(),
                              .copy_bytes = devices::Allocator::rounded(block.bytes())}}});
    }
  }
  return plan;
}

MemoryPlan PipelineRun::memory_plan(int64_t rows) const {
  const PipelineReport report = check_schedule(shape_, schedule_);
  // What a forward pass hands to its backward pass is there for each micro-batch in flight.
  const auto keep_in_flight = [&](MemoryPlan::Device& device, int stage) {
    device.result_bytes *=
        static_cast<size_t>(std::max(report.in_flight[static_cast<size_t>(stage)], 1));
  };
  MemoryPlan all;
  for (size_t p = 0; p < function_.each.size(); ++p) {
    const std::vector<CompiledSegment>& segments = function_.each[p];
    MemoryPlan own;
    if (!group_) own = memory_plan_of(segments, function_.arguments, rows);
    for (int stage = 0; stage < shape_.stages; ++stage) {
      if (!stages().is_here(stage, static_cast<int>(p))) continue;
      if (group_) {
        MemoryPlan of_stage = plan_of_stage(p, stage, rows);
        for (MemoryPlan::Device& device : of_stage.devices) keep_in_flight(device, stage);
        add(own, of_stage);
        continue;
      }
      for (const auto& member : segments[static_cast<size_t>(stage)].replicas->devices) {
        keep_in_flight(*std::ranges::find(own.devices, member->name(), &MemoryPlan::Device::name),
                       stage);
      }
    }
    add(all, own);
  }
  for (const CompiledLevel& level : function_.once) {
    add(all, memory_plan_of(level.segments, level.arguments.size(), rows));
  }
  add(all, plan_of_variables());
  return all;
}

}  // namespace tandem::graph
