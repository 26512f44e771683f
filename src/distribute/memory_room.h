/// What the devices' memory has room for, before anything runs.
#pragma once

#include "tandem/function.h"

namespace tandem::distribute {

/// True where what a run allocates, with so many bytes of the batch on each device, stays within
/// 90 % of the memory limit of each device.
bool has_room(const MemoryPlan& plan, size_t batch_bytes);

/// The bytes of a row of all tensors of a batch.
size_t row_bytes(const Tensors& batch);

}  // namespace tandem::distribute
