/// A step over micro-batches: the parts of a batch that run one after another in the memory of one,
/// or behind each other through the stages of a pipeline. To the function they are replicas, which
/// meet in collectives; here a collective is a sum in time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/passes/passes.h"
#include "graph/variable_homes.h"
#include "op/group.h"

namespace tandem::graph {

/// Where micro-batches go through.
struct PipelineStages {
  std::vector<devices::DevicePtr> devices;  ///< One for each stage; one alone is no pipeline.
  int chunks = 1;  ///< So many of the model's are on each stage: chunk c is on stage c % stages.
  /// The devices of further pipelines, through which other micro-batches go at the same time.
  std::vector<std::vector<devices::DevicePtr>> beside{};
  /// The devices of each stage, by pipeline, where several run its passes together; empty: one has
  /// all. Each has parts of the weights, or of the state.
  std::vector<std::vector<std::vector<devices::DevicePtr>>> members{};
  /// So many groups of a stage's members, which are neighbours, have rows of their own of each
  /// micro-batch. The members of a group have the same ones.
  int data = 1;
  /// The same where each member is a process: how many there are, which of them this process is,
  /// and how they meet. `processes` and `all_processes` are then those that are this member of a
  /// stage, between which tensors go as if there were no others.
  int member_processes = 1;
  int own_member = 0;
  std::shared_ptr<op::Group> along_members{};
  /// Those of them that have the same rows as this process, and those that have the same parts of
  /// the weights; null where each has rows of its own.
  std::shared_ptr<op::Group> along_model{};
  std::shared_ptr<op::Group> along_data{};
  /// The layers of each chunk by name, where somebody has listed them. Others go with what they
  /// need.
  std::vector<std::vector<std::string>> layers{};

  /// The process of each stage, by pipeline; none: this one has all. The devices of other
  /// processes' stages are of no account.
  std::vector<std::vector<int>> processes{};
  int own_process = 0;
  ProcessList all_processes{0};
  std::shared_ptr<VariableHomes> homes{};  ///< Null where there is one process.

  /// True where a chunk's list has a layer of the variable with this path,
  /// "encoder/dense_1/kernel".
  bool lists(int chunk, const std::string& path) const {
    if (layers.empty()) return false;
    const auto& names = layers[static_cast<size_t>(chunk)];
    return std::ranges::any_of(names, [&](const std::string& layer) {
      return path.starts_with(layer + "/") || path.find("/" + layer + "/") != std::string::npos;
    });
  }

  int pipelines() const { return 1 + static_cast<int>(beside.size()); }
  int chunks_in_all() const { return static_cast<int>(devices.size()) * chunks; }
  /// The members of a stage in this process, and in all.
  int member_count() const { return members.empty() ? 1 : static_cast<int>(members[0][0].size()); }
  int members_in_all() const { return member_count() * member_processes; }
  /// The members that have the same rows.
  int model() const { return members_in_all() / data; }
  /// So many parts of a batch go through at the same time.
  int parts_of_batch() const { return pipelines() * data; }
  /// Where stages are cut for a Shard, each member has parts of what no layout cuts.
  VariableCut cut_over_members() const { return {.parts = members_in_all(), .first = own_member}; }
  /// All members of the stage of a process. Ranks run along the axes of the data, of the stages and
  /// of the weights, the last one fastest.
  ProcessList with_members(int process) const {
    const int in_stage = member_processes / data;
    const int in_row = in_stage * static_cast<int>(devices.size());
    const int row = data > 1 ? 0 : process / in_row * in_row;
    const int first = row + process % in_row / in_stage * in_stage;
    ProcessList ranks;
    for (int member = 0; member < member_processes; ++member) {
      ranks.push_back(first + member / in_stage * in_row + member % in_stage);
    }
    return ranks;
  }
  std::vector<devices::DevicePtr> members_of(int chunk, int pipeline) const {
    if (members.empty()) return {of_chunk(chunk, pipeline)};
    return members[static_cast<size_t>(pipeline)][static_cast<size_t>(chunk) % devices.size()];
  }
  /// The members of the stage that has this device; those of the first stage where none has.
  const std::vector<devices::DevicePtr>& members_beside(const devices::DevicePtr& device) const {
    for (const auto& by_stage : members) {
      for (const auto& own : by_stage) {
        if (std::ranges::find(own, device) != own.end()) return own;
      }
    }
    return members[0][0];
  }
  /// True where the members of a stage do not share memory.
  bool are_members_apart() const {
    return std::ranges::any_of(members, [](const auto& by_stage) {
      return std::ranges::any_of(by_stage, [](const auto& own) {
        return std::ranges::any_of(
            own, [&](const auto& each) { return &each->space() != &own[0]->space(); });
      });
    });
  }
  /// The stage of a device in the first pipeline, or of a device beside it; negative where it is
  /// none's.
  int stage_of(const devices::DevicePtr& device) const {
    for (size_t stage = 0; stage < devices.size(); ++stage) {
      const auto own = members_of(static_cast<int>(stage), 0);
      if (std::ranges::find(own, device) != own.end()) return static_cast<int>(stage);
    }
    return -1;
  }
  int process_of(int chunk, int pipeline) const {
    if (processes.empty()) return own_process;
    return processes[static_cast<size_t>(pipeline)][static_cast<size_t>(chunk) % devices.size()];
  }
  bool is_here(int chunk, int pipeline) const { return process_of(chunk, pipeline) == own_process; }
  const devices::DevicePtr& of_chunk(int chunk, int pipeline = 0) const {
    const auto& own = pipeline == 0 ? devices : beside[static_cast<size_t>(pipeline) - 1];
    return own[static_cast<size_t>(chunk) % own.size()];
  }
};

/// What the search for stages goes by where nobody has named them.
struct StageSearch {
  int64_t rows = kNominalRows;  ///< The rows of a micro-batch.
  /// Whether calls are measured on the stages' devices, beside what they are known to cost. Where
  /// several processes must come to the same stages they are not.
  bool measures = false;
  /// By stage, the bytes that it may take; 0: any number. None: no stage has a limit.
  std::vector<size_t> room{};
  /// By stage, the most micro-batches whose activations it keeps at once.
  std::vector<int> in_flight{};
};

/// A value that one process has and others need.
struct ProcessCrossing {
  int tensor = -1;  ///< What runs once has it; negative where this process has no part in it.
  int from = 0;
  ProcessList to;
  op::TensorType type;
};

/// What this process does of what runs once before it needs values of others again.
struct OnceLevel {
  Partition part;                          ///< No segments where it does nothing.
  std::vector<int> arguments;              ///< Argument i of it is this tensor of what runs once.
  std::vector<ProcessCrossing> crossings;  ///< Behind it.
};

/// What runs once. Its tensors are the arguments of the function, then for each level its results,
/// then what this process gets of others behind it.
struct OnceCut {
  std::vector<OnceLevel> levels;  ///< One where there is one process.
  std::vector<int> results;       ///< Which tensors are the results.
};

/// A variable that a stage uses and has no memory of: it has a copy, which is made before each run.
struct VariableCopy {
  StoreRange from;
  StoreRange to;
};

/// A graph cut by chunks and by what is done once.
struct MicrobatchCut {
  /// What runs for each micro-batch before any of them goes through the model, if anything does:
  /// sums that the batch alone decides. Its inputs are arguments, and it has no results.
  std::optional<Segment> first;
  /// What runs for each micro-batch: the forward passes of all n chunks but the last, the forward
  /// and backward pass of the last, the backward passes of the others in reverse: 2n - 1 segments,
  /// each of which needs earlier ones alone. The tensors of a micro-batch are the arguments, then
  /// the results of each segment in turn. By pipeline: they differ in devices and in the variables
  /// of their sums. Those of other processes are here for their inputs and results alone.
  std::vector<std::vector<Segment>> each;
  /// What runs once when all micro-batches have.
  OnceCut once;
  /// The variables that not all processes keep, and optimizers' slots of them.
  std::vector<KeptVariable> kept;
  std::vector<VariableCopy> copies;
  /// How the chunks came to their calls, for people.
  std::string chunks_text;
  /// True where a search has found them.
  bool is_searched = false;
  /// Where each result is: a tensor of the micro-batch, or of what runs once.
  struct Result {
    bool of_each = true;
    int tensor = 0;
  };
  std::vector<Result> results;
};

/// Takes the sums that the batch alone decides out of a graph: it reads them then from variables
/// of `owner` on `device`, to which the segment adds for each micro-batch. Nothing where there are
/// none.
std::optional<Segment> take_early_sums(Graph& graph, const devices::DevicePtr& device,
                                       uint64_t owner);

/// Cuts the graph of a step, traced for so many replicas as there are micro-batches, those of all
/// pipelines together, each as often as it has members. Sums of what
/// the micro-batches have become variables of `owner` beside the stages that add to them. Where no
/// scope of the function names a stage, stages are searched for. Throws
/// Unimplemented for what a micro-batch would have to wait for the others in the middle of its
/// passes, and InvalidArgument for scopes that make no pipeline.
MicrobatchCut cut_microbatches(Graph graph, int replicas, const PipelineStages& stages,
                               uint64_t owner, const StageSearch& search = {});

}  // namespace tandem::graph
