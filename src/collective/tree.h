/// The order in which replicas' values are summed, wherever the replicas are: a balanced tree over
/// their numbers. A sum of several is that of the first 2^k and that of the rest, 2^k being the
/// largest power of two that leaves a rest. So the halves that processes or devices sum on their
/// own are halves of the same tree, and the bits of a sum do not depend on who computes it.
#pragma once

#include <bit>

namespace tandem::collective {

/// How many of `count` values, at least two, the left half has.
constexpr int left_half(int count) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(count - 1)));
}

/// How many sums are unfinished at once, at the most, the last one's result with them.
constexpr int tree_depth(int count) {
  return count < 2 ? 1 : 1 + std::bit_width(static_cast<unsigned>(count - 1));
}

/// The sum of values `first` to `first + count` in this order. `value(i, depth)` gives one, and
/// `add(a, b, depth)` the sum of two, each of which may use the memory numbered `depth`.
template <class Value, class Add>
auto tree_sum(int first, int count, const Value& value, const Add& add, int depth = 0)
    -> decltype(value(0, 0)) {
  if (count == 1) return value(first, depth);
  const int left = left_half(count);
  const auto a = tree_sum(first, left, value, add, depth);
  const auto b = tree_sum(first + left, count - left, value, add, depth + 1);
  return add(a, b, depth);
}

}  // namespace tandem::collective
