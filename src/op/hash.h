/// Hashes of what op signatures are made of.
#pragma once

#include <cstddef>

#include "tandem/shape.h"

namespace tandem::op {

inline size_t mixed(size_t seed, size_t value) {
  seed ^= value + 0x9e3779b97f4a7c15 + (seed << 6) + (seed >> 2);
  return seed * 0xff51afd7ed558ccd;
}

inline size_t hash_of(const Shape& shape) {
  size_t seed = static_cast<size_t>(shape.rank());
  for (int64_t size : shape.extents()) seed = mixed(seed, static_cast<size_t>(size));
  return seed;
}

}  // namespace tandem::op
