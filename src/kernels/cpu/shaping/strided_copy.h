/// Copies elements that are evenly spaced along each axis.
#pragma once

#include "kernels/part.h"
#include "kernels/strided.h"

namespace tandem::kernels::cpu {

class StridedCopy {
 public:
  StridedCopy(const op::TensorType& to, const Strided& strided);

  /// Copies this thread's rows, from the first input to the first output.
  void run(const op::Launch& launch) const { (this->*run_)(launch); }

 private:
  template <class U>
  void run_as(const op::Launch& launch) const;

  /// This thread's part of the loops; none if it has no rows.
  Nest<2> part(const op::Launch& launch, int64_t& from, int64_t& to) const;

  Strided strided_;
  RowSplit split_;
  void (StridedCopy::*run_)(const op::Launch&) const;
};

}  // namespace tandem::kernels::cpu
