/// Tensors that tests can write down.
#pragma once

#include <vector>

#include "tandem/tensor.h"

namespace tandem::harness {

inline Tensor vector(const std::vector<float>& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

/// Rows of three, counting from `first`.
inline Tensor rows_of_three(int64_t rows, float first = 1) {
  std::vector<float> values(static_cast<size_t>(rows) * 3);
  for (float& value : values) value = first++;
  return Tensor::from(values, {rows, 3});
}

}  // namespace tandem::harness
