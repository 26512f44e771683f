/// How a PipelineStrategy comes to its stages, in one process or in several.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distribute/strategy_body.h"
#include "execution/pipeline/pipeline.h"
#include "op/group.h"
#include "tandem/distribute/strategy.h"

namespace tandem::distribute {

/// What all strategies with stages let users say of them; see PipelineOptions.
struct StageOptions {
  int microbatches = 1;
  std::string schedule;
  int chunks = 1;
  std::vector<std::vector<std::string>> layers;

  bool has_automatic_microbatches() const { return microbatches == PipelineOptions::automatic; }
  /// The options as text, by which processes that want different ones are told the difference.
  std::string str() const;
};

/// The pipeline of these stages. Throws InvalidArgument, which begins with the strategy's name, for
/// options that make none.
graph::Pipeline make_pipeline(const char* strategy, const StageOptions& options,
                              graph::PipelineStages stages);

/// The body of a strategy with so many stages, whose replicas `replicas_of` makes for a number of
/// micro-batches. Where this is automatic it is the number of stages at first.
std::shared_ptr<Strategy::Body> pipeline_body(const char* strategy, const StageOptions& options,
                                              int stages,
                                              const Strategy::Body::ReplicasOf& replicas_of);

/// A strategy whose stages are dealt to the processes of `group`; null is this process alone. All
/// processes call it at the same time, as multi_worker_strategy().
PipelineStrategy pipeline_strategy(const std::shared_ptr<op::Group>& group,
                                   const PipelineOptions& options);

}  // namespace tandem::distribute
