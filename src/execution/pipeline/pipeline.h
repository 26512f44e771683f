/// A pipeline as a strategy wants it: see PipelineStrategy.
#pragma once

#include "execution/pipeline/schedule.h"
#include "graph/microbatches.h"

namespace tandem::graph {

struct Pipeline {
  PipelineStages stages{};
  PipelineKind kind = PipelineKind::one_f_one_b;

  PipelineShape shape(int microbatches) const {
    return {.kind = kind,
            .stages = static_cast<int>(stages.devices.size()),
            .microbatches = microbatches,
            .chunks = stages.chunks};
  }
};

}  // namespace tandem::graph
