/// How many elements become one: the loops that reductions are made of.
#pragma once

#include <cstdint>

namespace tandem::kernels::cpu {

enum class FoldKind { sum, max, min, prod };

/// Rows of a matrix that lie `stride` elements apart.
template <class T>
struct Rows {
  const T* x;
  int64_t rows;
  int64_t stride;
  int64_t columns;
};

template <class T>
struct Fold {
  T start;          ///< The fold of nothing.
  T (*join)(T, T);  ///< The fold of two folds.
  /// The fold of `count` elements side by side.
  T (*run)(const T* x, int64_t count);
  /// Joins to out[c] the fold of column c.
  void (*columns)(const Rows<T>& rows, T* out);
};

/// The best there is on this machine; the argument only names the type. NaN stays NaN.
Fold<float> best_fold(FoldKind kind, float);
Fold<double> best_fold(FoldKind kind, double);

/// Whole numbers wrap round.
Fold<int32_t> best_fold(FoldKind kind, int32_t);
Fold<int64_t> best_fold(FoldKind kind, int64_t);
Fold<uint8_t> best_fold(FoldKind kind, uint8_t);

}  // namespace tandem::kernels::cpu
