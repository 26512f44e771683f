/// Two sums over the rows of a matrix for each of its columns: of g, and of a product of g and x.
/// The gradients of what normalisations are scaled and shifted by are such sums.
#pragma once

#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {

struct ColumnSums {
  int64_t rows, columns;
  /// The product's term of row r and column c, from g, x, and two arrays a and b.
  const char* term;
  /// Which inputs these four are.
  int g, x, a, b;
  /// Which outputs the sums are.
  int sum, product;
};

ExecutablePtr prepare_column_sums(const ColumnSums& sums, const Signature& s, const Device& device);

}  // namespace tandem::kernels::gpu
