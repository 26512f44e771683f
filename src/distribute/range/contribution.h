/// What workers give to a parameter server and take from it: elements of the pieces of variables
/// that the server has, all of them or those of some rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/store.h"

namespace tandem::distribute {

/// The elements of a variable that a server has.
struct RangePiece {
  StoreRange range;  ///< Where the server has it.
  size_t variable;   ///< Its variable's place among those of the step, assigned ones after all.
  int64_t begin;     ///< The first element.
  /// The elements of a row, where gradients are those of some rows; else 0.
  int64_t row_elements = 0;
  bool reads_rows = false;    ///< Whether workers read some rows of it alone, most of the time.
  bool updates_rows = false;  ///< Whether rows that have no gradient stay as they are.

  /// The elements of a row that it has, counted from `begin`; none where the row is elsewhere.
  struct RowPart {
    int64_t begin;
    int64_t end;
    int64_t count() const { return std::max<int64_t>(end - begin, 0); }
  };
  RowPart part_of(int64_t row) const {
    return {std::max(row * row_elements - begin, int64_t{0}),
            std::min((row + 1) * row_elements - begin, range.count)};
  }
  size_t bytes() const { return static_cast<size_t>(range.count) * size_of(range.block->dtype()); }
  /// Calls `take` with the place, in bytes, and the length of what it has of these rows, or of
  /// all where there is no list.
  template <class Take>
  void for_each_part(const std::vector<int64_t>* rows, const Take& take) const {
    if (rows == nullptr) return take(size_t{0}, bytes());
    const size_t size = size_of(range.block->dtype());
    for (const int64_t row : *rows) {
      const RowPart part = part_of(row);
      if (part.count() == 0) continue;
      take(static_cast<size_t>(part.begin) * size, static_cast<size_t>(part.count()) * size);
    }
  }
  size_t bytes_of(const std::vector<int64_t>* rows) const {
    size_t all = 0;
    for_each_part(rows, [&](size_t, size_t count) { all += count; });
    return all;
  }
};

/// Numbers of rows in ascending order, none twice, for each piece; null: all of the piece.
using RowLists = std::vector<const std::vector<int64_t>*>;

/// The list of a piece; null, too, where there are no lists.
inline const std::vector<int64_t>* rows_at(const RowLists& rows, size_t piece) {
  return piece < rows.size() ? rows[piece] : nullptr;
}

/// What came of a ticket: an address for each piece, and whether each call of apply_gradients is
/// to change anything.
struct Contribution {
  std::vector<const void*> pieces;
  std::vector<bool> conditions;
  /// For each piece the rows that its address has the elements of. The vector may be empty.
  RowLists rows{};
  std::shared_ptr<const void> owner{};  ///< Keeps the gradients, but not what steps assign.
};

}  // namespace tandem::distribute
