/// Lists of lists of numbers, to be written down as a tensor's value. For the use of Tensor::of.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include "tandem/export.h"
#include "tandem/shape.h"

namespace tandem::internal {

/// A list's elements are numbers (depth 1) or lists again.
template <class T>
struct ListTraits {
  static constexpr int kDepth = 0;
  using Number = T;
};
template <class T>
struct ListTraits<std::initializer_list<T>> {
  static constexpr int kDepth = ListTraits<T>::kDepth + 1;
  using Number = typename ListTraits<T>::Number;
};
template <class T>
struct ListTraits<std::vector<T>> {
  static constexpr int kDepth = ListTraits<T>::kDepth + 1;
  using Number = typename ListTraits<T>::Number;
};

/// "tensor: the list at [1,0] has 3 elements, those before it have 2".
[[noreturn]] TANDEM_API void throw_ragged(std::span<const int64_t> place, int64_t elements,
                                          int64_t wanted);

/// All numbers of a list, one after another, and the shape they have.
template <class List>
class Flattened {
 public:
  static constexpr int kDepth = ListTraits<List>::kDepth;
  using Number = typename ListTraits<List>::Number;
  /// std::vector<bool> has no elements to point to.
  using Stored = std::conditional_t<std::is_same_v<Number, bool>, uint8_t, Number>;

  /// Throws InvalidArgument where lists side by side differ in length.
  explicit Flattened(const List& list) : sizes_(kDepth, -1) {
    add(list);
    for (int64_t& size : sizes_) size = size < 0 ? 0 : size;
  }

  const std::vector<Stored>& numbers() const { return numbers_; }
  Shape shape() const { return Shape(std::span<const int64_t>(sizes_)); }

 private:
  template <class Part>
  void add(const Part& part) {
    constexpr int kAxis = kDepth - ListTraits<Part>::kDepth;
    const auto elements = static_cast<int64_t>(part.size());
    int64_t& size = sizes_[kAxis];
    if (size >= 0 && size != elements) throw_ragged(place_, elements, size);
    size = elements;
    if constexpr (ListTraits<Part>::kDepth == 1) {
      numbers_.insert(numbers_.end(), part.begin(), part.end());
    } else {
      place_.push_back(0);
      for (const auto& inner : part) {
        add(inner);
        ++place_.back();
      }
      place_.pop_back();
    }
  }

  std::vector<int64_t> sizes_;
  std::vector<int64_t> place_;
  std::vector<Stored> numbers_;
};

}  // namespace tandem::internal
