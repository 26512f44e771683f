/// The sizes of a tensor's axes, outermost first. A cheap value; any thread may use it.
///
/// While a function is traced, the number of rows of its batch is not known yet. A size that is a
/// multiple of it is written as a negative number: -1 is the rows themselves, -128 is 128 times the
/// rows. At most one axis may be symbolic.
///
/// The sizes that are not 0 multiply to kMaxCount at most, so that no count of elements or bytes
/// overflows; whatever would make a larger shape throws InvalidArgument.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tandem/export.h"

namespace tandem {

class TANDEM_API Shape {
 public:
  static constexpr int kMaxRank = 8;
  static constexpr int64_t kMaxCount = int64_t{1} << 58;

  Shape() = default;  ///< The shape of a scalar.
  Shape(std::initializer_list<int64_t> sizes);
  explicit Shape(std::span<const int64_t> sizes);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return sizes_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> sizes() const { return {sizes_.data(), static_cast<size_t>(rank_)}; }

  /// The product of all sizes; negative (a multiple of the rows) when the shape is symbolic.
  int64_t count() const;

  /// The size of the leading axis, 1 for a scalar.
  int64_t rows() const { return rank_ == 0 ? 1 : sizes_[0]; }

  bool is_symbolic() const;

  /// This shape with the symbolic size replaced by its multiple of `rows`.
  Shape resolved(int64_t rows) const;

  /// This shape with one size changed, removed or added.
  Shape with(int axis, int64_t size) const;
  Shape without(int axis) const;
  Shape inserted(int axis, int64_t size) const;

  /// "[128,784]"; a symbolic size prints as "rows" or "128*rows".
  std::string str() const;

  bool operator==(const Shape& other) const;

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

}  // namespace tandem
