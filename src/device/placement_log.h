/// What was placed where and why, each distinct placement once.
#pragma once

#include "tandem/device/placement.h"

namespace tandem::devices {

/// Keeps the placement and, when it is new, logs it.
void report_placement(Placement placement);

/// Soft placement chose another device than was asked for: a warning, once for each of `op_name`
/// and reason, and kept as a placement.
void report_fallback(const std::string& op_name, Placement placement);

}  // namespace tandem::devices
