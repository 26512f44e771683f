/// How the values of a graph are named, and what is kept for each of them. An id is no other
/// number: it does not mix with a call's position, a buffer or the index of an argument.
#pragma once

#include <cstddef>
#include <ranges>
#include <utility>
#include <vector>

namespace tandem::graph {

/// The number of a value within its graph.
enum class ValueId : int {};

/// In the place of a value: there is none.
inline constexpr ValueId kNoValue{-1};

constexpr size_t index_of(ValueId id) { return static_cast<size_t>(id); }

using ValueIds = std::vector<ValueId>;

/// Something for each value of a graph, in the order of the ids.
template <class T>
class ValueMap {
 public:
  ValueMap() = default;
  explicit ValueMap(size_t values, const T& initial = T()) : by_index_(values, initial) {}

  decltype(auto) operator[](ValueId id) { return by_index_[index_of(id)]; }
  decltype(auto) operator[](ValueId id) const { return by_index_[index_of(id)]; }

  size_t size() const { return by_index_.size(); }

  /// False for values that were added to the graph after this was made.
  bool contains(ValueId id) const { return index_of(id) < by_index_.size(); }

  void push_back(T of_next) { by_index_.push_back(std::move(of_next)); }

  /// The ids of all values, in order.
  auto ids() const {
    return std::views::iota(0, static_cast<int>(by_index_.size())) |
           std::views::transform([](int index) { return ValueId{index}; });
  }

  auto begin() { return by_index_.begin(); }
  auto end() { return by_index_.end(); }
  auto begin() const { return by_index_.begin(); }
  auto end() const { return by_index_.end(); }
  auto data() { return by_index_.data(); }
  auto data() const { return by_index_.data(); }

 private:
  std::vector<T> by_index_;
};

}  // namespace tandem::graph
