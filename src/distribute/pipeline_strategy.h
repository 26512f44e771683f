/// How a PipelineStrategy comes to its stages, in one process or in several.
#pragma once

#include <memory>

#include "op/group.h"
#include "tandem/distribute/strategy.h"

namespace tandem::distribute {

/// A strategy whose stages are dealt to the processes of `group`; null is this process alone. All
/// processes call it at the same time, as multi_worker_strategy().
PipelineStrategy pipeline_strategy(const std::shared_ptr<op::Group>& group,
                                   const PipelineOptions& options);

}  // namespace tandem::distribute
