/// Sums over what is not zero among some numbers, each times a run of other numbers.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tandem::kernels::cpu {

/// A whole number as wide as T.
template <class T>
using Place = std::conditional_t<sizeof(T) == sizeof(int32_t), int32_t, int64_t>;

template <class T>
struct SparseRuns {
  /// Writes what is not zero among `count` elements, and its places; returns how many there are.
  /// Both lists have room for `count`.
  int64_t (*find)(const T* x, int64_t count, T* values, Place<T>* places);

  /// to[0, length) += sum over `count` values of value * from[step * place, .. + length).
  void (*add)(const T* values, const Place<T>* places, int64_t count, const T* from, int64_t step,
              T* to, int64_t length);
};

/// The functions for the best instruction set there is; float or double. A look-up: for prepare,
/// not for run.
template <class T>
SparseRuns<T> sparse_runs();

}  // namespace tandem::kernels::cpu
