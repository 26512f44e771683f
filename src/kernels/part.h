/// Which elements of a tensor a thread takes.
#pragma once

#include <utility>
#include <vector>

#include "op/kernel.h"

namespace tandem::kernels {

/// A tensor split by its leading axis: a thread's rows are one run of elements.
struct RowSplit {
  explicit RowSplit(const Shape& shape)
      : rows(shape.rows()), per_row(rows == 0 ? 0 : shape.count() / rows) {}

  /// First element and end.
  std::pair<int64_t, int64_t> part(const op::Launch& launch) const {
    const auto [begin, end] = op::part_of(rows, launch);
    return {begin * per_row, end * per_row};
  }

  int64_t rows;
  int64_t per_row;
};

inline const std::vector<DType>& all_dtypes() {
  static const std::vector<DType> dtypes = {
      DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::uint8,
      DType::int32,   DType::int64,   DType::boolean, DType::int8,     DType::int16,
      DType::uint16,  DType::uint32,  DType::uint64};
  return dtypes;
}

}  // namespace tandem::kernels
