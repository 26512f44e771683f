/// Which part of a tensor: `x(0, Slice(1, 3))`, `x(ellipsis, newaxis)`, as in Python. Values that
/// any thread may use.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

namespace tandem {

/// Elements begin, begin + step, .. short of `end`, as Python's slices: negative positions count
/// from the end, those outside of the axis are moved to its edge, missing ones are the first and
/// the last in the direction of the step.
struct Stride {
  std::optional<int64_t> begin{};
  std::optional<int64_t> end{};
  int64_t step = 1;  ///< Negative: backwards. Never 0.
};

/// A stride written as a call: `Slice(1, 3)`, `Slice(1, {})` from 1 on, `Slice({}, {}, -1)`
/// backwards; `Slice()` is the whole axis.
struct Slice : Stride {
  constexpr explicit Slice(std::optional<int64_t> begin = {}, std::optional<int64_t> end = {},
                           int64_t step = 1)
      : Stride{begin, end, step} {}
};

struct Ellipsis {};
struct NewAxis {};

/// Every axis that the other indices leave. At most once.
inline constexpr Ellipsis ellipsis{};

/// A new axis of size 1.
inline constexpr NewAxis newaxis{};

/// A whole number of any type.
template <class T>
concept Position = std::integral<T> && !std::same_as<T, bool>;

/// One entry of `x(..)`: a position, which takes the axis away (negative: from the end), a Slice,
/// `ellipsis` or `newaxis`.
class Index {
 public:
  enum class Kind { position, stride, ellipsis, newaxis };

  // NOLINTBEGIN(google-explicit-constructor)
  template <Position T>
  Index(T position) : kind_(Kind::position), position_(static_cast<int64_t>(position)) {}
  Index(const Stride& stride) : kind_(Kind::stride), stride_(stride) {}
  Index(Ellipsis) : kind_(Kind::ellipsis) {}
  Index(NewAxis) : kind_(Kind::newaxis) {}
  // NOLINTEND(google-explicit-constructor)

  Kind kind() const { return kind_; }
  int64_t position() const { return position_; }
  const Stride& stride() const { return stride_; }

 private:
  Kind kind_;
  int64_t position_ = 0;
  Stride stride_{};
};

template <class T>
concept IndexLike = std::convertible_to<const T&, Index>;

}  // namespace tandem
