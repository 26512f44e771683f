/// Runs a function over the micro-batches of a batch: each stage of the pipeline on a thread of its
/// own, in the order that its schedule says, then once what comes behind the sums. Stages hand
/// tensors to each other; a tensor lives until the last segment that needs it has run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "execution/compiled_segment.h"
#include "execution/pipeline/pipeline.h"

namespace tandem::graph {

/// A function that is cut as MicrobatchCut says, compiled.
struct PipelinedFunction {
  std::vector<CompiledSegment> first;              ///< One, or none.
  std::vector<std::vector<CompiledSegment>> each;  ///< By pipeline.
  std::vector<CompiledSegment> once;
  std::vector<int> once_arguments;
  std::vector<int> once_results;  ///< As Partition::results.
  std::vector<MicrobatchCut::Result> results;
  size_t arguments = 0;  ///< Of the function.
};

class PipelineRun {
 public:
  /// `shape` is that of each pipeline.
  PipelineRun(PipelinedFunction function, PipelineShape shape);

  /// `arguments` are those of replicas, of which each micro-batch is one. Throws what a stage threw
  /// with its name, and DeadlineExceeded naming one that does not come to its end.
  Results run(const std::string& function, const RunArguments& arguments);

  /// Stages, schedule, and what each stage computes.
  std::string explain(const std::string& function, int64_t rows) const;

  /// What a run with so many rows in each micro-batch allocates.
  MemoryPlan memory_plan(int64_t rows) const;

 private:
  struct Step;
  void run_stage(Step& step, int pipeline, int stage) const;
  void run_segment(Step& step, size_t segment, int microbatch) const;
  Results run_compiled(const Step& step, const CompiledSegment& compiled, int microbatch) const;
  void wait_for_inputs(Step& step, size_t segment, int microbatch) const;
  void note_done(Step& step, size_t segment, int microbatch, const Results& results) const;
  Tensors run_once(const Step& step) const;
  std::string stage_name(int pipeline, int stage) const;
  int pipelines() const { return static_cast<int>(function_.each.size()); }
  int microbatches() const { return pipelines() * shape_.microbatches; }
  /// The segment of a task; -1 where another one does it along.
  int segment_of(int stage, const PipelineTask& task) const;

  const PipelinedFunction function_;
  const PipelineShape shape_;
  const PipelineSchedule schedule_;
  std::vector<std::vector<size_t>> needs_;  // By segment, those that compute its inputs.
  std::vector<size_t> first_result_;        // By segment, its first result's place.
  std::vector<int> uses_;                   // By tensor, the segments and results that need it.
  core::TimedMutex mutex_;                  // One run at a time.
};

}  // namespace tandem::graph
