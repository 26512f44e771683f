/// Where the elements of a replica's tensor are in a stream of random numbers. Each element takes
/// the numbers that it would take if one replica had the whole batch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "op/kernel.h"

namespace tandem::kernels {

class GlobalPositions {
 public:
  /// Reads the attributes batch_axis and per_row, which ops/random/batch_axis.h explains.
  GlobalPositions(const op::Signature& s, const Shape& shape)
      : per_row_(s.attrs.get<int64_t>("per_row")) {
    const auto axis = static_cast<int>(s.attrs.get<int64_t>("batch_axis"));
    if (axis < 0) return;
    for (int i = axis + 1; i < shape.rank(); ++i) per_row_ *= shape[i];
    run_ = shape.count() == 0 ? 0 : shape.extent(axis);
    for (int i = axis + 1; i < shape.rank(); ++i) run_ *= shape[i];
  }

  /// The elements of a run; 0 where nothing follows the batch.
  int64_t run() const { return run_; }
  /// The positions that a row of the batch takes in each run.
  int64_t per_row() const { return per_row_; }

  /// Walks the elements [begin, end) in runs of consecutive positions:
  /// visit(first element, how many, position of the first).
  template <class Visit>
  void for_each_run(const op::Launch& launch, int64_t begin, int64_t end, Visit visit) const {
    if (run_ == 0) {
      if (begin < end) visit(begin, end - begin, static_cast<uint64_t>(begin));
      return;
    }
    const int64_t global_run = launch.step->global_rows * per_row_;
    const int64_t offset = launch.step->row_offset * per_row_;
    for (int64_t i = begin; i < end;) {
      const int64_t within = i % run_;
      const int64_t count = std::min(run_ - within, end - i);
      visit(i, count, static_cast<uint64_t>(i / run_ * global_run + offset + within));
      i += count;
    }
  }

 private:
  int64_t per_row_;
  int64_t run_ = 0;  ///< Elements of the batch axis and those inside it; 0 where there is none.
};

}  // namespace tandem::kernels
