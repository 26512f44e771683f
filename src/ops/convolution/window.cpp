#include "ops/convolution/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tandem/error.h"

namespace tandem::ops {
namespace {

/// With larger numbers the positions within a padded image might overflow.
constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

void check_positive(std::string_view op, std::string_view what,
                    const std::array<int64_t, 2>& sizes) {
  const auto [least, largest] = std::minmax(sizes[0], sizes[1]);
  if (least > 0 && largest <= kLargest) return;
  throw InvalidArgument(fmt::format("{}: {} must be {}, got [{},{}]", op, what,
                                    least > 0 ? "below 2^31" : "positive", sizes[0], sizes[1]));
}

void check_padding(std::string_view op, const Padding::Pair& pair) {
  const auto [least, largest] = std::minmax(pair.first, pair.second);
  if (least >= 0 && largest <= kLargest) return;
  throw InvalidArgument(fmt::format("{}: padding must {}, got {} and {}", op,
                                    least < 0 ? "not be negative" : "be below 2^31", pair.first,
                                    pair.second));
}

/// The padding of one axis, into `axis`.
void pad(WindowAxis& axis, const Padding& padding, const Padding::Pair& pair) {
  const int64_t reach = (axis.window - 1) * axis.dilation + 1;
  switch (padding.kind()) {
    case Padding::Kind::valid:
      break;
    case Padding::Kind::same: {
      const int64_t results = (axis.image + axis.stride - 1) / axis.stride;
      const int64_t all = std::max<int64_t>((results - 1) * axis.stride + reach - axis.image, 0);
      axis.before = all / 2;
      axis.after = all - all / 2;
      break;
    }
    case Padding::Kind::explicit_pairs:
      axis.before = pair.first;
      axis.after = pair.second;
      break;
  }
  const int64_t room = axis.image + axis.before + axis.after - reach;
  axis.result = room < 0 ? 0 : room / axis.stride + 1;
}

}  // namespace

std::array<WindowAxis, 2> window_axes(std::string_view op, const Shape& image,
                                      const WindowOptions& options) {
  check_positive(op, "the window", options.window);
  check_positive(op, "strides", options.strides);
  check_positive(op, "dilations", options.dilations);
  const std::array<Padding::Pair, 2> pairs{options.padding.height(), options.padding.width()};
  std::array<WindowAxis, 2> axes;
  for (size_t i = 0; i < 2; ++i) {
    WindowAxis& axis = axes[i];
    axis.image = image.extent(static_cast<int>(i) + 1);
    if (axis.image < 0) {
      throw InvalidArgument(fmt::format(
          "{}: the height and width of {} must not depend on the number of rows", op, image.str()));
    }
    axis.window = options.window[i];
    axis.stride = options.strides[i];
    axis.dilation = options.dilations[i];
    check_padding(op, pairs[i]);
    pad(axis, options.padding, pairs[i]);
    const bool wants_none = options.padding.kind() == Padding::Kind::same && axis.image == 0;
    if (axis.result == 0 && !wants_none) {
      throw InvalidArgument(fmt::format(
          "{}: a window of [{},{}]{} does not fit into {}", op, options.window[0],
          options.window[1], axis.dilation > 1 ? " with its dilation" : "", image.str()));
    }
  }
  return axes;
}

std::vector<int64_t> attribute_of(const std::array<WindowAxis, 2>& axes) {
  std::vector<int64_t> values;
  for (const WindowAxis& axis : axes) {
    values.insert(values.end(), {axis.image, axis.window, axis.stride, axis.dilation, axis.before,
                                 axis.after, axis.result});
  }
  return values;
}

std::array<WindowAxis, 2> window_of(const op::Attrs& attrs) {
  const auto& v = attrs.get<std::vector<int64_t>>("window");
  return {WindowAxis{v[0], v[1], v[2], v[3], v[4], v[5], v[6]},
          WindowAxis{v[7], v[8], v[9], v[10], v[11], v[12], v[13]}};
}

}  // namespace tandem::ops
