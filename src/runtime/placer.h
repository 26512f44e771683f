/// Where an op runs: the scope's device, unless it uses a variable that is not there; else the
/// device of the variable it uses; else the first device, GPUs before CPUs, that has a kernel for
/// it. With soft placement the host stands in for a device of the scope that does not exist or has
/// no kernel.
#pragma once

#include "op/apply.h"

namespace tandem::runtime {

/// Throws NotFound where the scope names a device that does not exist. Whether the device has a
/// kernel at all is found out when one is prepared.
const devices::DevicePtr& place(const op::Signature& signature, const op::RangeOperands& ranges);

/// True where no scope names a device and placements are not logged. Then an op that uses a
/// variable runs on the variable's device, and place() need not be asked.
bool is_placed_by_operands();

}  // namespace tandem::runtime
