/// Arrays in memory whose rows are the elements of a data set.
#pragma once

#include <span>

#include "data/batch_memory.h"
#include "tandem/data.h"

namespace tandem::data {

class Table {
 public:
  /// Brings the tensors to the host. They have the same number of rows.
  explicit Table(const Tensors& tensors);

  int64_t rows() const { return rows_; }
  const Tensors& columns() const { return columns_; }

  /// One row, which shares the arrays' memory.
  Element row(int64_t place) const;

  /// The rows at `places`: the arrays' own memory where they lie one after another, else a copy.
  Element gather(std::span<const int64_t> places, BatchMemory& memory) const;

 private:
  Tensors columns_;
  int64_t rows_ = 0;
};

}  // namespace tandem::data
