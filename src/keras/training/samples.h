/// The arrays that fit, evaluate and predict are given: a row of each is a sample.
#pragma once

#include <optional>

#include "tandem/data.h"

namespace tandem::keras {

struct Samples {
  Tensors x;
  Tensors y{};
  Tensor weight{};  ///< A weight for each sample, or undefined.

  /// The rows that all of them have. Throws InvalidArgument, after `who`, where they differ and
  /// where there are none.
  int64_t rows(const char* who) const;

  Samples part(int64_t begin, int64_t end) const;

  /// x, y and the weight, one row after another.
  data::Dataset slices() const;
};

/// The size of the batches of so many rows: what is given, at most all; else 32, or what makes
/// `steps` batches. Throws InvalidArgument, after `who`, for a size below 1.
int64_t batch_size_of(const char* who, std::optional<int64_t> given, std::optional<int64_t> steps,
                      int64_t rows);

}  // namespace tandem::keras
