#include "function/compile_pipeline.h"

#include <algorithm>
#include <limits>

#include "function/compile_segment.h"
#include "graph/microbatches.h"

namespace tandem::graph {
namespace {

using devices::DevicePtr;

op::TensorTypes types_of_results(const Graph& graph) {
  op::TensorTypes types;
  for (ValueId result : graph.results) types.push_back(graph.at(result).type);
  return types;
}

/// Who runs the programs of a stage together: its members.
ReplicasPtr replicas_of(const PipelineStages& stages, const std::vector<DevicePtr>& members) {
  Replicas replicas{.devices = members};
  if (stages.member_processes > 1) {
    replicas.group = stages.along_members;
    replicas.first = stages.own_member;
    replicas.in_all_processes = stages.member_processes;
    replicas.model = stages.model();
    replicas.along_model = stages.along_model;
    replicas.along_data = stages.along_data;
    // Slots are in parts where a Shard says so, and nowhere else.
    replicas.bucket_bytes = std::numeric_limits<size_t>::max();
  }
  return std::make_shared<Replicas>(std::move(replicas));
}

/// The passes of a pipeline. Of other processes' passes only the inputs are known.
std::vector<CompiledSegment> compile_passes(std::vector<Segment> segments,
                                            const PipelineStages& stages, int pipeline) {
  std::vector<CompiledSegment> passes;
  for (size_t s = 0; s < segments.size(); ++s) {
    const int chunk = static_cast<int>(std::min(s, segments.size() - 1 - s));
    Segment& segment = segments[s];
    CompiledSegment pass;
    if (stages.is_here(chunk, pipeline)) {
      pass = compile_segment(std::move(segment.graph),
                             replicas_of(stages, stages.members_of(chunk, pipeline)),
                             Executions::Calls::in_turn);
    }
    pass.inputs = std::move(segment.inputs);
    passes.push_back(std::move(pass));
  }
  return passes;
}

/// What runs once runs on the members of the stage that has its variables, each of which has its
/// parts of them; where stages share memory, that is the first one. Where members are processes,
/// each stage's make their own part of it.
std::vector<CompiledSegment> compile_once(std::vector<Segment> segments,
                                          const PipelineStages& stages) {
  if (stages.members_in_all() == 1) {
    return compile_segments(std::move(segments), Executions::Calls::in_turn);
  }
  std::vector<CompiledSegment> compiled;
  for (Segment& segment : segments) {
    const auto members = stages.member_count() > 1 ? stages.members_beside(segment.device)
                                                   : std::vector{segment.device};
    compiled.push_back(compile_segment(std::move(segment.graph), replicas_of(stages, members),
                                       Executions::Calls::in_turn));
    compiled.back().inputs = std::move(segment.inputs);
  }
  return compiled;
}

int microbatches_of(const Replicas& replicas) {
  const PipelineStages& stages = replicas.pipeline->stages;
  return replicas.count() / stages.members_in_all() / stages.pipelines();
}

struct CompiledPipeline {
  std::unique_ptr<PipelineRun> run;
  bool is_searched = false;
};

CompiledPipeline cut_and_compile(Graph graph, const Replicas& replicas, const StageSearch& search) {
  const Pipeline& pipeline = *replicas.pipeline;
  PipelinedFunction function;
  function.arguments = graph.arguments.size();
  function.random_calls = graph.random_calls;
  MicrobatchCut cut =
      cut_microbatches(std::move(graph), replicas.count(), pipeline.stages, replicas.owner, search);
  function.chunks_text = std::move(cut.chunks_text);
  if (cut.first) {
    std::vector<Segment> first;
    first.push_back(std::move(*cut.first));
    function.first = compile_segments(std::move(first), Executions::Calls::in_turn);
  }
  for (const Segment& segment : cut.each[0]) {
    function.result_types.push_back(types_of_results(segment.graph));
  }
  for (size_t p = 0; p < cut.each.size(); ++p) {
    function.each.push_back(
        compile_passes(std::move(cut.each[p]), pipeline.stages, static_cast<int>(p)));
  }
  for (OnceLevel& level : cut.once.levels) {
    function.once.push_back(
        {.segments = compile_once(std::move(level.part.segments), pipeline.stages),
         .arguments = std::move(level.arguments),
         .results = std::move(level.part.results),
         .crossings = std::move(level.crossings)});
  }
  function.once_results = std::move(cut.once.results);
  function.kept = std::move(cut.kept);
  function.copies = std::move(cut.copies);
  function.results = std::move(cut.results);
  return {
      std::make_unique<PipelineRun>(std::move(function), replicas.pipeline,
                                    microbatches_of(replicas), replicas.group, replicas.agreement),
      cut.is_searched};
}

/// What a device may still take: 90 % of its limit, as automatic sizes do; 0: any number of bytes.
size_t room_on(devices::Device& device) {
  const devices::AllocatorStatistics info = device.allocator().info();
  if (info.limit == 0) return 0;
  const size_t most = info.limit / 10 * 9;
  return most > info.current ? most - info.current : 1;
}

/// Where several processes search they must come to the same stages, whatever each has measured and
/// whatever room its devices have.
StageSearch search_for(const Replicas& replicas, int64_t rows) {
  const Pipeline& pipeline = *replicas.pipeline;
  StageSearch search{.rows = std::max<int64_t>(rows, 1)};
  if (pipeline.stages.homes) return search;
  search.measures = true;
  const PipelineShape shape = pipeline.shape(microbatches_of(replicas));
  search.in_flight = check_schedule(shape, make_schedule(shape)).in_flight;
  for (const DevicePtr& device : pipeline.stages.devices) search.room.push_back(room_on(*device));
  return search;
}

/// Leaves stages whose memory plan exceeds what their devices have less room; false where none
/// does. Sums of gradients are there already.
bool tighten(StageSearch& search, const PipelineStages& stages, const PipelineRun& run) {
  if (std::ranges::all_of(search.room, [](size_t room) { return room == 0; })) return false;
  const MemoryPlan plan = run.memory_plan(search.rows);
  bool is_tighter = false;
  for (size_t stage = 0; stage < search.room.size(); ++stage) {
    const DevicePtr& device = stages.devices[stage];
    const size_t room = room_on(*device);
    const auto own = std::ranges::find(plan.devices, device->name(), &MemoryPlan::Device::name);
    if (room == 0 || own == plan.devices.end() || own->bytes() <= room) continue;
    const double share = static_cast<double>(room) / static_cast<double>(own->bytes());
    search.room[stage] =
        std::max<size_t>(static_cast<size_t>(static_cast<double>(search.room[stage]) * share), 1);
    is_tighter = true;
  }
  return is_tighter;
}

}  // namespace

std::unique_ptr<PipelineRun> compile_pipeline(Graph graph, const Replicas& replicas, int64_t rows) {
  constexpr int kMostSearches = 4;
  StageSearch search = search_for(replicas, rows);
  CompiledPipeline compiled = cut_and_compile(graph, replicas, search);
  for (int i = 1; i < kMostSearches && compiled.is_searched; ++i) {
    if (!tighten(search, replicas.pipeline->stages, *compiled.run)) break;
    compiled = {};  // Its sums of gradients go first.
    compiled = cut_and_compile(graph, replicas, search);
  }
  return std::move(compiled.run);
}

}  // namespace tandem::graph
