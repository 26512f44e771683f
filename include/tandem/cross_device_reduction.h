/// How replicas whose devices do not share memory bring their gradients together.
#pragma once

namespace tandem::distribute {

enum class CrossDeviceReduction {
  automatic,   ///< One of the others, by how much there is to move.
  ranges,      ///< Each replica sums and updates its range, then all gather the ranges.
  one_device,  ///< One device sums, the others get the sum.
};

}  // namespace tandem::distribute
