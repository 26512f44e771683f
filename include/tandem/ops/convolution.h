/// Convolutions of images that lie in memory as [batch, height, width, channels].
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "tandem/tensor.h"

namespace tandem {

/// A height and a width: `3` for both, or `{3, 5}`.
class HeightWidth {
 public:
  HeightWidth() = default;
  HeightWidth(int64_t both) : HeightWidth(both, both) {}  // NOLINT(google-explicit-constructor)
  HeightWidth(int64_t height, int64_t width) : sizes_{{height, width}} {}
  HeightWidth(const std::array<int64_t, 2>& sizes)  // NOLINT(google-explicit-constructor)
      : sizes_(sizes) {}

  bool given() const { return sizes_.has_value(); }
  /// The two sizes. Requires that they were given.
  const std::array<int64_t, 2>& sizes() const { return *sizes_; }
  std::array<int64_t, 2> value_or(const std::array<int64_t, 2>& otherwise) const {
    return sizes_.value_or(otherwise);
  }

 private:
  std::optional<std::array<int64_t, 2>> sizes_;
};

/// Zeros around an image.
class Padding {
 public:
  enum class Kind { valid, same, explicit_pairs };
  using Pair = std::pair<int64_t, int64_t>;  ///< Before and after.

  /// There is no padding.
  static const Padding valid;
  /// As many zeros as make the result ceil(size / stride) large; where their number is odd, one
  /// more at the end, as in TensorFlow.
  static const Padding same;

  /// So many rows of zeros above and below, and columns to the left and right.
  Padding(const Pair& height, const Pair& width) : Padding(Kind::explicit_pairs, height, width) {}

  Kind kind() const { return kind_; }
  const Pair& height() const { return height_; }
  const Pair& width() const { return width_; }

 private:
  constexpr Padding(Kind kind, const Pair& height, const Pair& width)
      : kind_(kind), height_(height), width_(width) {}

  Kind kind_;
  Pair height_, width_;
};

inline const Padding Padding::valid{Kind::valid, {0, 0}, {0, 0}};
inline const Padding Padding::same{Kind::same, {0, 0}, {0, 0}};

struct Conv2dOptions {
  std::array<int64_t, 2> strides{1, 1};  ///< Down and to the right.
  Padding padding = Padding::valid;
  std::array<int64_t, 2> dilations{1, 1};  ///< Distances between elements of the filter.
  int64_t groups = 1;  ///< Channels are cut into so many groups, each with filters of its own.
};

/// `x` [batch, height, width, in] with `filter` [height, width, in / groups, out] laid over it at
/// every stride: a tensor [batch, height', width', out], of the size that
/// (size + padding - ((filter - 1) * dilation + 1)) / stride + 1 gives. Output channels
/// [i * out / groups, (i + 1) * out / groups) see input channels [i * in / groups, ..) only. Both
/// have the same dtype, float32 or float64. Throws InvalidArgument when the channels do not agree,
/// the filter is larger than the padded image, or a stride, dilation or number of groups is not
/// positive. Differentiable any number of times.
TANDEM_API Tensor conv2d(const Tensor& x, const Tensor& filter, const Conv2dOptions& options = {});

struct DepthwiseConv2dOptions {
  std::array<int64_t, 2> strides{1, 1};
  Padding padding = Padding::valid;
  std::array<int64_t, 2> dilations{1, 1};
};

/// Each channel of `x` [batch, height, width, channels] with filters of its own, `filter`
/// [height, width, channels, multiplier]: a tensor [batch, height', width', channels * multiplier]
/// in which the results of one channel lie side by side. Otherwise as conv2d.
TANDEM_API Tensor depthwise_conv2d(const Tensor& x, const Tensor& filter,
                                   const DepthwiseConv2dOptions& options = {});

}  // namespace tandem
