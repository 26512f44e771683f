/// Where an op runs: the scope's device, unless it uses a variable that is not there; else the
/// device of the variable it uses; else the first device, GPUs before CPUs, that has a kernel for
/// it.
#pragma once

#include "op/apply.h"

namespace tandem::runtime {

const devices::DevicePtr& place(const op::Signature& signature, const op::RangeOperands& ranges);

}  // namespace tandem::runtime
