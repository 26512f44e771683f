/// What softmax and the losses built on it say in texts.
#pragma once

#include <string_view>

namespace tandem::kernels::gpu {

/// MAXIMUM_OF(x, n, most) makes T most, the largest of a row. A NaN may be dropped: the sum of
/// exponentials brings it back.
inline constexpr std::string_view kSoftmaxWords = R"(
#define GREATER_OF(a, b) ((a) > (b) ? (a) : (b))
#define MAXIMUM_OF(x, n, most) \
  LANES_OF(T, most##_, -INFINITY) \
  LANEWISE(T, v, x[c], c, l, n, most##_[l] = GREATER_OF(v, most##_[l]);) \
  JOIN(T, most##_, GREATER_OF) \
  const T most = most##_[0];
)";

}  // namespace tandem::kernels::gpu
