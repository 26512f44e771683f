/// Tensors as bytes of a message, as workers send results.
#pragma once

#include "distribute/server/server_cluster.h"
#include "tandem/tensor.h"

namespace tandem::distribute {

void append_tensors(MessageWriter& writer, const Tensors& tensors);
Tensors read_tensors(MessageReader& reader);

}  // namespace tandem::distribute
