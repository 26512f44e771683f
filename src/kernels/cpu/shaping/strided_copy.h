/// A tensor whose elements are those of another at places evenly spaced along each axis: what
/// transposes and slices are.
#pragma once

#include <vector>

#include "kernels/cpu/nest.h"
#include "kernels/cpu/part.h"

namespace tandem::kernels::cpu {

class StridedCopy {
 public:
  /// Element (i, j, ..) of `to` is the one at base + i * strides[0] + j * strides[1] + .. of the
  /// input. Strides may be negative.
  StridedCopy(const op::TensorType& to, int64_t base, const std::vector<int64_t>& strides);

  /// Copies this thread's rows, from the first input to the first output.
  void run(const op::Launch& launch) const { (this->*run_)(launch); }

 private:
  template <class U>
  void run_as(const op::Launch& launch) const;

  /// This thread's part of the loops; none if it has no rows.
  Nest<2> part(const op::Launch& launch, int64_t& from, int64_t& to) const;

  int64_t base_;
  int64_t count_;
  RowSplit split_;
  Nest<2> nest_;  // Strides of the input, of the output.
  void (StridedCopy::*run_)(const op::Launch&) const;
};

/// The distances of neighbours along each axis of a tensor that lies in row-major order.
std::vector<int64_t> strides_of(const Shape& shape);

}  // namespace tandem::kernels::cpu
