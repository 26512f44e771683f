#include "execution/pipeline/pipeline_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "core/named_error.h"
#include "profile/row_scope.h"
#include "profile/span.h"
#include "runtime/random_calls.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tensor/row_slices.h"

namespace tandem::graph {

/// What the threads of a run share.
struct PipelineRun::Step {
  const std::string& function;
  const RunArguments& arguments;
  op::RandomRun random;

  std::mutex mutex{};
  std::condition_variable changed{};
  std::vector<Tensors> tensors{};            // By micro-batch.
  std::vector<std::vector<int>> uses{};      // By micro-batch, those to come of each tensor.
  std::vector<std::vector<bool>> is_done{};  // By micro-batch, by segment.
  std::exception_ptr error{};                // The first one.
};

PipelineRun::PipelineRun(PipelinedFunction function, PipelineShape shape)
    : function_(std::move(function)), shape_(shape), schedule_(make_schedule(shape)) {
  check_schedule(shape_, schedule_);
  std::vector<int> producer(function_.arguments, -1);
  const std::vector<CompiledSegment>& segments = function_.each[0];
  for (size_t s = 0; s < segments.size(); ++s) {
    const CompiledSegment& segment = segments[s];
    std::vector<size_t> needs;
    for (int input : segment.inputs) {
      const int from = producer[static_cast<size_t>(input)];
      if (from >= 0 && std::ranges::find(needs, static_cast<size_t>(from)) == needs.end()) {
        needs.push_back(static_cast<size_t>(from));
      }
    }
    needs_.push_back(std::move(needs));
    first_result_.push_back(producer.size());
    producer.resize(producer.size() + segment.program->graph().results.size(), static_cast<int>(s));
  }
  uses_.assign(producer.size(), 0);
  for (const CompiledSegment& segment : segments) {
    for (int input : segment.inputs) ++uses_[static_cast<size_t>(input)];
  }
  for (const MicrobatchCut::Result& result : function_.results) {
    if (result.of_each) ++uses_[static_cast<size_t>(result.tensor)];
  }
}

int PipelineRun::segment_of(int stage, const PipelineTask& task) const {
  const int chunk = task.chunk * shape_.stages + stage;
  const int last = static_cast<int>(function_.each[0].size()) - 1;
  if (task.action == PipelineAction::forward) return chunk;
  if (task.action != PipelineAction::backward || 2 * chunk == last) return -1;
  return last - chunk;
}

std::string PipelineRun::stage_name(int pipeline, int stage) const {
  const auto& segments = function_.each[static_cast<size_t>(pipeline)];
  const auto& device = segments[static_cast<size_t>(stage)].replicas->devices[0];
  return fmt::format("stage {} on {}", stage, device->name());
}

Results PipelineRun::run(const std::string& function, const RunArguments& arguments) {
  std::unique_lock turn(mutex_, std::try_to_lock);
  if (!turn && !turn.try_lock_for(config::wait_deadline())) {
    throw DeadlineExceeded(
        fmt::format("{}: a call from another thread did not end within the deadline", function));
  }
  const auto microbatches = static_cast<size_t>(this->microbatches());
  const uint64_t calls = function_.each[0][0].program->graph().random_calls;
  Step step{
      .function = function, .arguments = arguments, .random = runtime::next_random_run(calls)};
  step.tensors.assign(microbatches, Tensors(uses_.size()));
  step.uses.assign(microbatches, uses_);
  step.is_done.assign(microbatches, std::vector<bool>(function_.each[0].size(), false));
  for (const CompiledSegment& first : function_.first) {
    for (int m = 0; m < this->microbatches(); ++m) run_compiled(step, first, m);
  }
  std::vector<std::thread> others;
  for (int each = 1; each < pipelines() * shape_.stages; ++each) {
    others.emplace_back([&, each] { run_stage(step, each / shape_.stages, each % shape_.stages); });
  }
  run_stage(step, 0, 0);
  for (std::thread& thread : others) thread.join();
  try {
    if (step.error) std::rethrow_exception(step.error);
    const Tensors once = run_once(step);
    std::vector<Tensors> results(microbatches);
    for (size_t m = 0; m < microbatches; ++m) {
      for (const MicrobatchCut::Result& result : function_.results) {
        const auto tensor = static_cast<size_t>(result.tensor);
        results[m].push_back(result.of_each ? step.tensors[m][tensor] : once[tensor]);
      }
    }
    return Results(std::move(results));
  } catch (const DeadlineExceeded&) {
    throw;
  } catch (...) {
    runtime::take_back(step.random, calls);
    throw;
  }
}

/// Does a stage's tasks in their order. What goes wrong ends all stages.
void PipelineRun::run_stage(Step& step, int pipeline, int stage) const {
  std::optional<profile::RowScope> row;
  if (shape_.stages > 1 && profile::is_profiling()) row.emplace(stage_name(pipeline, stage));
  try {
    for (const PipelineTask& task : schedule_[static_cast<size_t>(stage)]) {
      const int segment = segment_of(stage, task);
      if (segment < 0) continue;
      const int microbatch = pipeline * shape_.microbatches + task.microbatch;
      wait_for_inputs(step, static_cast<size_t>(segment), microbatch);
      {
        const std::lock_guard lock(step.mutex);
        if (step.error) return;
      }
      run_segment(step, static_cast<size_t>(segment), microbatch);
    }
  } catch (...) {
    const std::lock_guard lock(step.mutex);
    if (!step.error) {
      step.error = shape_.stages > 1 ? core::named_error(stage_name(pipeline, stage))
                                     : std::current_exception();
    }
    step.changed.notify_all();
  }
}

void PipelineRun::wait_for_inputs(Step& step, size_t segment, int microbatch) const {
  const auto& is_done = step.is_done[static_cast<size_t>(microbatch)];
  const auto missing = [&] {
    return std::ranges::find_if(needs_[segment], [&](size_t each) { return !is_done[each]; });
  };
  std::unique_lock lock(step.mutex);
  if (step.error || missing() == needs_[segment].end()) return;
  const profile::Span waiting("wait for a stage", profile::Activity::wait);
  const auto deadline = config::wait_deadline();
  const bool arrived = step.changed.wait_for(
      lock, deadline, [&] { return step.error || missing() == needs_[segment].end(); });
  if (arrived) return;
  const size_t chunk = std::min(*missing(), function_.each[0].size() - 1 - *missing());
  throw DeadlineExceeded(fmt::format(
      "micro-batch {} did not come from {} within the deadline of {} s", microbatch,
      stage_name(microbatch / shape_.microbatches, static_cast<int>(chunk) % shape_.stages),
      std::chrono::duration<double>(deadline).count()));
}

void PipelineRun::run_segment(Step& step, size_t segment, int microbatch) const {
  const auto pipeline = static_cast<size_t>(microbatch / shape_.microbatches);
  const Results results = run_compiled(step, function_.each[pipeline][segment], microbatch);
  note_done(step, segment, microbatch, results);
}

Results PipelineRun::run_compiled(const Step& step, const CompiledSegment& compiled,
                                  int microbatch) const {
  const auto m = static_cast<size_t>(microbatch);
  ArgumentList inputs;
  for (int input : compiled.inputs) {
    const auto tensor = static_cast<size_t>(input);
    if (tensor >= function_.arguments) {
      inputs.push_back({&step.tensors[m][tensor]});
    } else if (const Argument& given = step.arguments.tensors[tensor];
               given.kind == Argument::Kind::own) {
      inputs.push_back({given.tensors + m});
    } else {
      inputs.push_back(given);
    }
  }
  const BatchShard& shard = step.arguments.shards[m];
  return compiled.executions->run(step.function, {.tensors = inputs,
                                                  .shards = {&shard, 1},
                                                  .global_rows = step.arguments.global_rows,
                                                  .random = &step.random,
                                                  .microbatch = microbatch,
                                                  .microbatches = microbatches()});
}

/// Hands the results on, and lets go of what nobody needs any more.
void PipelineRun::note_done(Step& step, size_t segment, int microbatch,
                            const Results& results) const {
  const auto m = static_cast<size_t>(microbatch);
  const std::lock_guard lock(step.mutex);
  for (size_t i = 0; i < results.count(); ++i) {
    step.tensors[m][first_result_[segment] + i] = results.at(0, i);
  }
  for (int input : function_.each[0][segment].inputs) {
    const auto tensor = static_cast<size_t>(input);
    if (--step.uses[m][tensor] == 0) step.tensors[m][tensor] = Tensor();
  }
  step.is_done[m][segment] = true;
  step.changed.notify_all();
}

/// The results of what runs once.
Tensors PipelineRun::run_once(const Step& step) const {
  if (function_.once.empty()) return {};
  int64_t rows = 0;
  for (const BatchShard& shard : step.arguments.shards) rows += shard.rows;
  const BatchShard whole_batch{.rows = rows};
  Tensors tensors;
  for (int argument : function_.once_arguments) {
    tensors.push_back(whole(step.arguments.tensors[static_cast<size_t>(argument)].of(0)));
  }
  for (const CompiledSegment& segment : function_.once) {
    ArgumentList inputs;
    for (int input : segment.inputs) inputs.push_back({&tensors[static_cast<size_t>(input)]});
    const Results results =
        segment.executions->run(step.function, {.tensors = inputs,
                                                .shards = {&whole_batch, 1},
                                                .global_rows = step.arguments.global_rows,
                                                .random = &step.random});
    for (size_t i = 0; i < results.count(); ++i) tensors.push_back(results.at(0, i));
  }
  Tensors wanted;
  for (int tensor : function_.once_results) wanted.push_back(tensors[static_cast<size_t>(tensor)]);
  return wanted;
}

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
  for (const MemoryPlan::Device& device : memory_plan(rows).devices) {
    text += fmt::format("{}: {} at most for {} rows in each micro-batch\n", device.name,
                        scaled(static_cast<double>(device.bytes()), "B"), rows);
  }
  for (const CompiledSegment& first : function_.first) {
    text += "before all others, for each micro-batch, " + first.executions->explain(function);
  }
  const size_t chunks = (segments.size() + 1) / 2;
  for (size_t s = 0; s < segments.size(); ++s) {
    const size_t chunk = std::min(s, segments.size() - 1 - s);
    const char* pass = s + 1 == chunks ? "forward and backward"
                       : s < chunks    ? "forward"
                                       : "backward";
    text += fmt::format("chunk {}, {}, for each micro-batch, ", chunk, pass);
    text += segments[s].executions->explain(function);
  }
  for (const CompiledSegment& segment : function_.once) {
    text += "once, " + segment.executions->explain(function);
  }
  return text + explain_edges(segments, function_.arguments, rows);
}

MemoryPlan PipelineRun::memory_plan(int64_t rows) const {
  const PipelineReport report = check_schedule(shape_, schedule_);
  MemoryPlan all;
  for (const std::vector<CompiledSegment>& segments : function_.each) {
    MemoryPlan own = memory_plan_of(segments, function_.arguments, rows);
    for (int stage = 0; stage < shape_.stages; ++stage) {
      const std::string name = segments[static_cast<size_t>(stage)].replicas->devices[0]->name();
      const auto device = std::ranges::find(own.devices, name, &MemoryPlan::Device::name);
      // What a forward pass hands to its backward pass is there for each micro-batch in flight.
      device->result_bytes *=
          static_cast<size_t>(std::max(report.in_flight[static_cast<size_t>(stage)], 1));
    }
    all.devices.insert(all.devices.end(), own.devices.begin(), own.devices.end());
  }
  if (function_.once.empty()) return all;
  const MemoryPlan once = memory_plan_of(function_.once, function_.once_arguments.size(), rows);
  for (const MemoryPlan::Device& own : once.devices) {
    const auto device = std::ranges::find(all.devices, own.name, &MemoryPlan::Device::name);
    if (device == all.devices.end()) {
      all.devices.push_back(own);
      continue;
    }
    device->arena_bytes += own.arena_bytes;
    device->result_bytes += own.result_bytes;
    device->copy_bytes += own.copy_bytes;
  }
  return all;
}

}  // namespace tandem::graph
