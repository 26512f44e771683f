/// The sizes of a tensor's axes, outermost first. Cheap values; any thread may use them.
///
/// While a function is traced, the number of rows of its batch is not known yet. A size that
/// depends on it prints as "None", and shapes that are made of it depend on the rows too:
///
///   reshape(x, {x.shape()[0], 28, 28})            // holds for any number of rows
///   reduce_sum(x) / double(x.shape()[0])          // is traced for this number of rows, and again
///                                                 // for another
///
/// `shape(x)` (tandem/ops/shaping.h) is the sizes as a tensor, which holds for any number.
///
/// The sizes that are not 0 multiply to kMaxCount at most, so that no count of elements or bytes
/// overflows; whatever would make a larger shape throws InvalidArgument.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <span>
#include <string>

#include "tandem/export.h"

namespace tandem {

/// The size of an axis, or a product of sizes.
class TANDEM_API Size {
 public:
  /// A negative number leaves the size open, for reshape() to fill in.
  template <std::integral T>
  Size(T value)  // NOLINT(google-explicit-constructor): numbers are sizes
      : extent_(static_cast<int64_t>(value)), open_(extent_ < 0) {
    if constexpr (std::unsigned_integral<T>) {
      if (extent_ < 0) throw_too_large();
    }
  }

  /// The number. Where it depends on the rows of a batch that a function is traced with, the trace
  /// holds for the present number of rows alone. Throws FailedPrecondition where the replicas of
  /// `strategy.run` differ in it, or nobody knows it.
  operator int64_t() const {  // NOLINT(google-explicit-constructor): sizes are numbers
    return extent_ >= 0 ? extent_ : known();
  }

  /// For the library's own use: the number, or -n where it is n times the rows.
  int64_t extent() const { return extent_; }
  bool is_open() const { return open_; }

  bool operator==(Size other) const {
    return extent_ == other.extent_ || int64_t{*this} == int64_t{other};
  }
  template <std::integral T>
  bool operator==(T other) const {
    return *this == Size(other);
  }

  /// Throws InvalidArgument when both depend on the rows, or the product is too large.
  friend TANDEM_API Size operator*(Size a, Size b);
  template <std::integral T>
  friend Size operator*(Size a, T b) {
    return a * Size(b);
  }
  template <std::integral T>
  friend Size operator*(T a, Size b) {
    return Size(a) * b;
  }

  /// The size as text: "784"; "None" where it depends on the rows.
  std::string str() const;

 private:
  friend class Shape;
  struct OfBatch {};
  Size(int64_t extent, OfBatch) : extent_(extent) {}

  int64_t known() const;
  [[noreturn]] static void throw_too_large();

  int64_t extent_;
  bool open_ = false;
};

class TANDEM_API Shape {
 public:
  static constexpr int kMaxRank = 8;
  static constexpr int64_t kMaxCount = int64_t{1} << 58;

  Shape() = default;  ///< The shape of a scalar.
  Shape(std::initializer_list<Size> sizes);
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  Size operator[](int axis) const { return size_of(extent(axis)); }

  /// All sizes, as a range of Size.
  auto sizes() const {
    return extents() | std::views::transform([this](int64_t extent) { return size_of(extent); });
  }

  /// The product of all sizes.
  Size count() const { return size_of(total_extent()); }

  /// The size of the leading axis, 1 for a scalar.
  Size rows() const { return size_of(leading_extent()); }

  /// True when a size depends on the rows of a batch.
  bool is_symbolic() const;

  /// This shape with one size changed, removed or added.
  Shape with(int axis, Size size) const;
  Shape without(int axis) const;
  Shape inserted(int axis, Size size) const;

  /// "[128,784]"; a size that depends on the rows prints as "None".
  std::string str() const;

  bool operator==(const Shape& other) const;

  /// For the library's own use: the sizes as Size::extent() has them.
  int64_t extent(int axis) const { return extents_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> extents() const { return {extents_.data(), static_cast<size_t>(rank_)}; }
  int64_t total_extent() const;
  int64_t leading_extent() const { return rank_ == 0 ? 1 : extents_[0]; }

  /// This shape for a batch of so many rows.
  Shape resolved(int64_t rows) const;

  /// True when a negative size was given as a number: it need not be the batch's.
  bool is_open() const { return open_; }
  /// This shape with such a size as the batch's.
  Shape of_batch() const;

 private:
  static void check_rank(size_t axes);
  Size size_of(int64_t extent) const {
    return open_ ? Size(extent) : Size(extent, Size::OfBatch{});
  }

  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
  bool open_ = false;
};

}  // namespace tandem
