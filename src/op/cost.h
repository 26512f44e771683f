/// What a call costs, from its signature alone.
#pragma once

#include "op/op_def.h"

namespace tandem::op {

struct Cost {
  double flops = 0;
  double bytes = 0;  ///< The bytes of its operands, each once.
};

/// The cost over all threads that share the call.
Cost cost_of(const Signature& signature);

}  // namespace tandem::op
