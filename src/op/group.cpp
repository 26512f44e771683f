#include "op/group.h"

#include <algorithm>

namespace tandem::op {

PartRange part_of_piece(std::int64_t count, int rank, int size) {
  constexpr std::int64_t kChunk = 64;
  const std::int64_t chunks = (count + kChunk - 1) / kChunk;
  // As op::part_of cuts, so that a rank's threads together update what it has summed.
  const auto place = [&](std::int64_t r) {
    return std::min((chunks * r + size - 1) / size * kChunk, count);
  };
  return {place(rank), place(rank + 1)};
}

}  // namespace tandem::op
