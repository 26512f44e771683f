/// The order of work in a pipeline. A batch is cut into micro-batches, a model into stages; each
/// stage does a forward and a backward pass for each micro-batch. A schedule says in which order,
/// and is a pure function of a few numbers: what it promises is checked before anything runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::graph {

enum class PipelineKind {
  gpipe,        ///< All forward passes, then all backward passes.
  one_f_one_b,  ///< As few micro-batches in flight as keep all stages busy, then one of each in
                ///< turn.
  interleaved,  ///< The same with several chunks of the model in each stage: a shorter wait at the
                ///< ends.
};

struct PipelineShape {
  PipelineKind kind = PipelineKind::one_f_one_b;
  int stages = 1;
  int microbatches = 1;
  int chunks = 1;  ///< The model's in each stage; more than one only when interleaved.
};

enum class PipelineAction {
  receive_input,  ///< The activations of the chunk before.
  forward,
  send_output,
  receive_gradient,  ///< From the chunk behind.
  backward,
  send_gradient,
  update,  ///< Once, when all gradients of the stage are there.
};

struct PipelineTask {
  PipelineAction action{};
  int microbatch = 0;
  int chunk = 0;  ///< The stage's; the model's chunks lie on stages 0, 1, .., 0, 1, .. in turn.
  bool operator==(const PipelineTask&) const = default;
};

using StageTasks = std::vector<PipelineTask>;
using PipelineSchedule = std::vector<StageTasks>;  ///< By stage.

/// Throws InvalidArgument when the numbers make no pipeline.
PipelineSchedule make_schedule(const PipelineShape& shape);

/// What a schedule costs, a forward pass of the whole stage taken as 1 and a backward pass as 2.
struct PipelineReport {
  double time = 0;    ///< From the first task to the last.
  double bubble = 0;  ///< The part of the time in which a stage has nothing to do, on average.
  std::vector<double>
      held;  ///< By stage, the activations held at most, in stages of one micro-batch.
  std::vector<int>
      in_flight;     ///< By stage, the forward passes whose backward pass is to come, at most.
  int messages = 0;  ///< Waiting at most between a chunk and the next; each needs a buffer.
};

/// Plays a schedule: sends do not wait, receives do. Throws FailedPrecondition, and says where,
/// when it comes to a stop, when a pass is done twice, never, or before what it needs, or when an
/// update is not the last.
PipelineReport check_schedule(const PipelineShape& shape, const PipelineSchedule& schedule);

/// A line for each stage, a column for each unit of time: the number of the micro-batch, backward
/// passes twice as wide and in brackets.
std::string picture_of(const PipelineShape& shape, const PipelineSchedule& schedule);

PipelineKind pipeline_kind(
    std::string_view name);  ///< "gpipe", "1f1b", "interleaved"; throws others.
std::string_view name_of(PipelineKind kind);

}  // namespace tandem::graph
