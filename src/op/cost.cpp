#include "op/cost.h"

namespace tandem::op {

Cost cost_of(const Signature& s) {
  Cost cost;
  for (const TensorTypes* types : {&s.inputs, &s.outputs, &s.ranges}) {
    for (const TensorType& type : *types) {
      cost.bytes += static_cast<double>(type.bytes());
    }
  }
  if (s.op->flops) {
    cost.flops = s.op->flops(s);
  } else if (!s.outputs.empty()) {
    cost.flops = static_cast<double>(s.outputs[0].shape.total_extent());
  }
  return cost;
}

}  // namespace tandem::op
