/// Runs a function over the micro-batches of a batch: each stage of the pipeline on a thread of its
/// own, in the order that its schedule says, then once what comes behind the sums. Stages hand
/// tensors to each other; a tensor lives until the last segment that needs it has run. Where stages
/// are in several processes, each runs its own, and tensors go between them by messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "execution/compiled_segment.h"
#include "execution/pipeline/pipeline.h"
#include "op/group.h"

namespace tandem::graph {

struct Agreement;

/// As OnceLevel, compiled.
struct CompiledLevel {
  std::vector<CompiledSegment> segments;
  std::vector<int> arguments;
  std::vector<int> results;  ///< As Partition::results.
  std::vector<ProcessCrossing> crossings;
};

/// A function that is cut as MicrobatchCut says, compiled.
struct PipelinedFunction {
  std::vector<CompiledSegment> first;  ///< One, or none.
  /// By pipeline. Those of other processes have no program.
  std::vector<std::vector<CompiledSegment>> each;
  std::vector<op::TensorTypes> result_types;  ///< By segment, those of its results.
  std::vector<CompiledLevel> once;
  std::vector<int> once_results;  ///< Which tensors of what runs once.
  std::vector<KeptVariable> kept;
  std::vector<VariableCopy> copies;
  std::string chunks_text;  ///< As MicrobatchCut::chunks_text.
  std::vector<MicrobatchCut::Result> results;
  size_t arguments = 0;  ///< The function has so many.
  uint64_t random_calls = 0;
};

class PipelineRun {
 public:
  /// `pipeline` says where the stages are, `group` are their processes, if there are several.
  PipelineRun(PipelinedFunction function, std::shared_ptr<const Pipeline> pipeline,
              int microbatches, std::shared_ptr<op::Group> group = nullptr,
              std::shared_ptr<Agreement> agreement = nullptr);
  ~PipelineRun();

  /// `arguments` are those of replicas, of which each micro-batch is one. Throws what a stage threw
  /// with its name, and DeadlineExceeded naming one that does not come to its end.
  Results run(const std::string& function, const RunArguments& arguments);

  /// Stages, schedule, and what each stage computes.
  std::string explain(const std::string& function, int64_t rows) const;

  /// What a run tells along the axes of a mesh: between stages, between the members of a stage in
  /// this process, and between pipelines.
  std::string explain_axes(int64_t rows) const;

  /// What a run with so many rows in each micro-batch allocates in this process.
  MemoryPlan memory_plan(int64_t rows) const;

  /// The variables of which somebody has said who keeps them; none where there is one process.
  const std::vector<KeptVariable>& kept() const { return function_.kept; }

  /// Which process has which stages.
  std::string explain_processes() const;

  /// What decides whether processes can run it together, a line for each fact.
  std::string fingerprint() const;

 private:
  struct Step;
  struct Wiring;
  MemoryPlan plan_of_stage(size_t pipeline, int stage, int64_t rows) const;
  MemoryPlan plan_of_variables() const;
  void copy_variables() const;
  std::string explain_copies() const;
  void run_stages(Step& step) const;
  void run_stage(Step& step, int pipeline, int stage) const;
  void run_segment(Step& step, size_t segment, int microbatch) const;
  void run_first(const Step& step) const;
  Results run_compiled(const Step& step, const CompiledSegment& compiled, int microbatch) const;
  void wait_for_inputs(Step& step, size_t segment, int microbatch) const;
  void note_done(Step& step, size_t segment, int microbatch, const Results& results) const;
  void send_results(size_t segment, int microbatch, const Results& results) const;
  void receive_results(Step& step, size_t segment, int microbatch) const;
  void receive_rest(Step& step) const;
  void tell_members(Step& step) const;
  op::TensorType type_of_result(size_t tensor, int64_t rows) const;
  void end_together() const;
  void give_up() const;
  Tensors run_once(const Step& step) const;
  std::vector<Tensors> results_of(const Step& step, const Tensors& once) const;
  void run_level(const Step& step, const CompiledLevel& level, const BatchShard& whole_batch,
                 Tensors& tensors) const;
  void cross(const CompiledLevel& level, uint32_t key, Tensors& tensors) const;
  std::string stage_name(int pipeline, int stage) const;
  std::string message_name(size_t segment, int microbatch) const;
  uint32_t key_of(size_t segment, int microbatch) const;
  std::string explain_messages(int64_t rows) const;
  int pipelines() const { return static_cast<int>(function_.each.size()); }
  int microbatches() const { return pipelines() * shape_.microbatches; }
  size_t pipeline_of(int microbatch) const {
    return static_cast<size_t>(microbatch / shape_.microbatches);
  }
  const PipelineStages& stages() const { return pipeline_->stages; }
  size_t members() const { return static_cast<size_t>(stages().member_count()); }
  /// The replicas of a micro-batch: its members in all processes, and the first one of this.
  size_t replicas_each() const { return static_cast<size_t>(stages().members_in_all()); }
  size_t first_replica(size_t microbatch) const {
    return microbatch * replicas_each() + static_cast<size_t>(stages().own_member);
  }
  bool is_elsewhere(size_t member) const {
    return stages().member_processes > 1 && static_cast<int>(member) != stages().own_member;
  }
  int chunk_of(size_t segment) const;
  bool is_here(size_t pipeline, size_t segment) const {
    return stages().is_here(chunk_of(segment), static_cast<int>(pipeline));
  }
  /// The segment of a task; -1 where another one does it along.
  int segment_of(int stage, const PipelineTask& task) const;

  const PipelinedFunction function_;
  const std::shared_ptr<const Pipeline> pipeline_;
  const std::shared_ptr<op::Group> group_;  // Null: this process alone.
  const std::shared_ptr<Agreement> agreement_;
  const PipelineShape shape_;
  const PipelineSchedule schedule_;
  std::unique_ptr<const Wiring> wiring_;
  core::TimedMutex mutex_;  // One run at a time.
};

}  // namespace tandem::graph
