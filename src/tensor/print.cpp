#include "tensor/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tensor/float_format.h"

namespace tandem {
namespace {

constexpr int64_t kMostElements = 1000;
constexpr int64_t kEdge = 3;
constexpr size_t kLineWidth = 75;

/// Which indices of an axis are shown: all, or those at its ends with a gap between.
struct ShownAxis {
  ShownAxis(int64_t axis_size, bool summarized)
      : size(axis_size), has_gap(summarized && axis_size > 2 * kEdge) {}

  int64_t count() const { return has_gap ? 2 * kEdge : size; }
  int64_t index(int64_t shown) const {
    return has_gap && shown >= kEdge ? size - 2 * kEdge + shown : shown;
  }
  bool gap_before(int64_t shown) const { return has_gap && shown == kEdge; }

  int64_t size;
  bool has_gap;
};

class Layout {
 public:
  using Format = std::function<std::string(int64_t element)>;

  explicit Layout(const Shape& shape) : shape_(shape) {
    for (int64_t size : shape.sizes()) axes_.emplace_back(size, shape.count() > kMostElements);
  }

  /// The elements that are shown, in order.
  std::vector<int64_t> elements() const {
    std::vector<int64_t> found;
    collect(0, 0, found);
    return found;
  }

  std::string text(const Format& format, size_t indent) const {
    return block(0, 0, indent + 1, kLineWidth, format);
  }

 private:
  void collect(size_t axis, int64_t element, std::vector<int64_t>& found) const {
    if (axis == axes_.size()) {
      found.push_back(element);
      return;
    }
    for (int64_t i = 0; i < axes_[axis].count(); ++i) {
      collect(axis + 1, element * axes_[axis].size + axes_[axis].index(i), found);
    }
  }

  std::string block(size_t axis, int64_t element, size_t indent, size_t width,
                    const Format& format) const {
    const ShownAxis& shown = axes_[axis];
    if (axis + 1 == axes_.size()) return row(element * shown.size, indent, width - 1, format);
    const std::string between =
        std::string(axes_.size() - axis - 1, '\n') + std::string(indent, ' ');
    std::string text = "[";
    for (int64_t i = 0; i < shown.count(); ++i) {
      if (i > 0) text += between;
      if (shown.gap_before(i)) text.append("...").append(between);
      text += block(axis + 1, element * shown.size + shown.index(i), indent + 1, width - 1, format);
    }
    return text + "]";
  }

  std::string row(int64_t first, size_t indent, size_t width, const Format& format) const {
    const ShownAxis& shown = axes_.back();
    std::string text = "[";
    size_t column = indent;
    const auto put = [&](const std::string& word) {
      if (text.size() > 1) {
        if (column + 1 + word.size() > width && column > indent) {
          text.resize(text.find_last_not_of(' ') + 1);
          text.append("\n").append(indent, ' ');
          column = indent;
        } else {
          text += ' ';
          ++column;
        }
      }
      text += word;
      column += word.size();
    };
    for (int64_t i = 0; i < shown.count(); ++i) {
      if (shown.gap_before(i)) put("...");
      put(format(first + shown.index(i)));
    }
    return text + "]";
  }

  const Shape shape_;
  std::vector<ShownAxis> axes_;
};

/// The elements in host memory.
template <class T>
std::vector<T> elements_of(const Tensor& tensor) {
  std::vector<T> values(static_cast<size_t>(tensor.shape().count()));
  tensor.copy_to_host(values.data());
  return values;
}

template <class T>
std::string floats(const Tensor& tensor, size_t indent) {
  const auto values = elements_of<T>(tensor);
  const auto decimal = [&](int64_t i) { return decimal_of(values[static_cast<size_t>(i)]); };
  if (tensor.rank() == 0) return str_of(decimal(0), float_traits<T>());
  const Layout layout(tensor.shape());
  std::vector<Decimal> shown;
  for (int64_t i : layout.elements()) shown.push_back(decimal(i));
  const FloatFormat format(shown, float_traits<T>());
  return layout.text([&](int64_t i) { return format(decimal(i)); }, indent);
}

template <class T>
std::string whole_numbers(const Tensor& tensor, size_t indent) {
  const auto values = elements_of<T>(tensor);
  const auto text = [&](int64_t i) { return std::to_string(values[static_cast<size_t>(i)]); };
  if (tensor.rank() == 0) return text(0);
  const Layout layout(tensor.shape());
  size_t width = 0;
  for (int64_t i : layout.elements()) width = std::max(width, text(i).size());
  return layout.text([&](int64_t i) { return fmt::format("{:>{}}", text(i), width); }, indent);
}

std::string booleans(const Tensor& tensor, size_t indent) {
  const auto values = elements_of<uint8_t>(tensor);
  const auto text = [&](int64_t i) { return values[static_cast<size_t>(i)] ? "True" : "False"; };
  if (tensor.rank() == 0) return text(0);
  return Layout(tensor.shape())
      .text([&](int64_t i) { return fmt::format("{:>5}", text(i)); }, indent);
}

}  // namespace

std::string values_text(const Tensor& tensor, size_t indent) {
  if (tensor.shape().count() == 0) return "[]";
  switch (tensor.dtype()) {
    case DType::float32:
      return floats<float>(tensor, indent);
    case DType::float64:
      return floats<double>(tensor, indent);
    case DType::float16:
      return floats<core::Float16>(tensor, indent);
    case DType::bfloat16:
      return floats<core::BFloat16>(tensor, indent);
    case DType::uint8:
      return whole_numbers<uint8_t>(tensor, indent);
    case DType::int32:
      return whole_numbers<int32_t>(tensor, indent);
    case DType::int64:
      return whole_numbers<int64_t>(tensor, indent);
    case DType::boolean:
      return booleans(tensor, indent);
    case DType::int8:
      return whole_numbers<int8_t>(tensor, indent);
    case DType::int16:
      return whole_numbers<int16_t>(tensor, indent);
    case DType::uint16:
      return whole_numbers<uint16_t>(tensor, indent);
    case DType::uint32:
      return whole_numbers<uint32_t>(tensor, indent);
    case DType::uint64:
      return whole_numbers<uint64_t>(tensor, indent);
  }
  return "";
}

}  // namespace tandem
