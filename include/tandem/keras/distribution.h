/// keras.distribution: see tandem/distribute/mesh.h, where these are defined.
///
///   keras::distribution::set_distribution(keras::distribution::ModelParallel(layouts));
///   ...                                            // Models made from now on are cut as it says.
///   keras::distribution::set_distribution();       // No longer.
#pragma once

#include <optional>

#include "tandem/distribute/mesh.h"

namespace tandem::keras::distribution {

using tandem::distribute::DataParallel;
using tandem::distribute::DeviceMesh;
using tandem::distribute::LayoutMap;
using tandem::distribute::ModelParallel;
using tandem::distribute::ModelParallelOptions;
using tandem::distribute::TensorLayout;

/// Until it is called again, this thread is in the scope of the strategy, or of none. Throws
/// FailedPrecondition inside a scope that somebody else has opened.
TANDEM_API void set_distribution(const std::optional<tandem::distribute::Strategy>& strategy = {});

/// What was set, if anything was.
TANDEM_API std::optional<tandem::distribute::Strategy> distribution();

/// The value whose part each device has after a layer that is cut by columns; other values as they
/// are. For code between layers that does more than work element by element.
TANDEM_API Tensor gather(const Tensor& x);

}  // namespace tandem::keras::distribution
