/// Compares objects with the checkpoint that they were restored from.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/restoration.h"
#include "tandem/checkpoint.h"

namespace tandem::checkpoint {

/// Without a restoration no object has been given anything.
train::RestoreReport report_of(const Restoration* restoration, const Trackable& root);

/// The first few.
std::string listed(const std::vector<std::string>& names);

/// Logs a warning if `root`, or one of its children that the checkpoint names too, has values of
/// which none is in the checkpoint. Where `root` has no values yet, the restoration is told to warn
/// at its end.
void warn_of_mismatches(Restoration& restoration, const Trackable& root);

}  // namespace tandem::checkpoint
