/// What the kernels of attention share whatever the instruction set: sizes, and where the operands
/// of one batch entry and head lie.
#pragma once

#include <cstdint>

#include "kernels/attention_shape.h"

namespace tandem::kernels::cpu {

/// Scores are made a block at a time.
inline constexpr int64_t kQueryBlock = 64;
inline constexpr int64_t kKeyBlock = 128;

inline int64_t query_blocks(const AttentionShape& s) {
  return (s.queries + kQueryBlock - 1) / kQueryBlock;
}

/// Tokens of one head: rows that lie `step` elements apart.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t step = 0;

  T* at(int64_t row) const { return data + row * step; }
};

template <class T>
struct AttentionHead {
  Rows<const T> query, key, value;
  const void* mask = nullptr;
  Rows<T> result, logarithms;  ///< The latter with one element in a row.
};

template <class T>
struct AttentionGradHead {
  Rows<const T> gradient, query, key, value, result, logarithms;
  const void* mask = nullptr;
  Rows<T> to_query, to_key, to_value;
};

template <class T>
struct AttentionFns {
  /// The blocks [first, last) of queries of one head.
  void (*forward)(const AttentionShape& shape, const AttentionHead<T>& head, int64_t first,
                  int64_t last, T* workspace);
  void (*backward)(const AttentionShape& shape, const AttentionGradHead<T>& head, T* workspace);
  /// The size of the workspace, in elements.
  int64_t (*forward_workspace)(const AttentionShape& shape);
  int64_t (*backward_workspace)(const AttentionShape& shape);
};

}  // namespace tandem::kernels::cpu
