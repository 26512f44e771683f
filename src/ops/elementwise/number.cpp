#include "ops/elementwise/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "op/apply.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::ops {
namespace {

/// The whole numbers that a dtype has which has no others.
struct WholeRange {
  int64_t least;
  int64_t greatest;

  static WholeRange of(DType dtype) {
    const auto limits = []<class T>(T) -> WholeRange {
      return {std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
    };
    switch (dtype) {
      case DType::boolean:
        return limits(bool());
      case DType::uint8:
        return limits(uint8_t());
      case DType::int8:
        return limits(int8_t());
      case DType::int16:
        return limits(int16_t());
      case DType::uint16:
        return limits(uint16_t());
      case DType::int32:
        return limits(int32_t());
      case DType::uint32:
        return limits(uint32_t());
      case DType::uint64:
        return {0, std::numeric_limits<int64_t>::max()};
      default:
        return limits(int64_t());
    }
  }

  bool has(int64_t number) const { return number >= least && number <= greatest; }
  bool has(double number) const {
    constexpr double kEnd = 0x1p63;
    return number == std::trunc(number) && number >= -kEnd && number < kEnd &&
           has(static_cast<int64_t>(number));
  }
};

void check_has(std::string_view op, DType dtype, auto number) {
  const WholeRange range = WholeRange::of(dtype);
  if (range.has(number)) return;
  throw InvalidArgument(
      fmt::format("{}: the number {} beside a tensor of {}, which has the whole numbers from {} to "
                  "{}; cast the tensor",
                  op, number, name_of(dtype), range.least, range.greatest));
}

bool is_watched(const Tensor& tensor) {
  return std::ranges::any_of(op::recorders(),
                             [&](const op::Recorder* r) { return r->is_tracked(tensor); });
}

/// f of the number, as a double or an int64_t.
template <class F>
Tensor with_value(const Tensor& number, const F& f) {
  switch (number.dtype()) {
    case DType::float32:
      return f(double{number.item<float>()});
    case DType::float64:
      return f(number.item<double>());
    case DType::uint8:
      return f(int64_t{number.item<uint8_t>()});
    case DType::int32:
      return f(int64_t{number.item<int32_t>()});
    case DType::boolean:
      return f(int64_t{number.item<bool>()});
    default:
      return f(number.item<int64_t>());
  }
}

bool is_eager() { return &op::interpreter() == &op::eager_interpreter(); }

/// The number as a scalar on the host, where it was.
Tensor scalar(auto number, DType dtype) {
  switch (dtype) {
    case DType::float32:
      return Tensor(static_cast<float>(number));
    case DType::float64:
      return Tensor(static_cast<double>(number));
    case DType::uint8:
      return Tensor(static_cast<uint8_t>(number));
    case DType::int32:
      return Tensor(static_cast<int32_t>(number));
    case DType::int64:
      return Tensor(static_cast<int64_t>(number));
    case DType::boolean:
      return Tensor(number != 0);
    default:
      return fill({}, static_cast<double>(number), dtype);
  }
}

/// What fill makes of a number; an int64 that a double does not hold is a constant.
Tensor everywhere(double number, DType dtype, const Shape& shape) {
  return fill(shape, number, dtype);
}
Tensor everywhere(int64_t number, DType dtype, const Shape& shape) {
  constexpr int64_t kLargest = int64_t{1} << 53;
  if (is_floating(dtype) || std::clamp(number, -kLargest, kLargest) == number) {
    return fill(shape, static_cast<double>(number), dtype);
  }
  return broadcast_to(Tensor(number), shape);
}

/// The dtype of two numbers, neither of which is beside a tensor.
DType common_dtype(DType a, DType b) {
  using enum DType;
  constexpr std::array kOrder = {float32, float64, int64, int32, uint8, boolean};
  return *std::ranges::find_if(kOrder, [&](DType dtype) { return dtype == a || dtype == b; });
}

}  // namespace

Tensor filled(std::string_view op, const Tensor& number, DType dtype, const Shape& shape) {
  if (is_watched(number)) return broadcast_to(cast(number, dtype), shape);
  return with_value(number, [&](auto value) {
    if (!is_floating(dtype)) check_has(op, dtype, value);
    const bool at_once = shape.rank() == 0 && is_eager();  // A call of fill would take longer.
    return at_once ? scalar(value, dtype) : everywhere(value, dtype, shape);
  });
}

Tensor typed(const Tensor& tensor) {
  if (!is_number(tensor) || is_watched(tensor)) return tensor;
  auto body = std::make_shared<TensorBody>(*tensor.body());
  body->is_number = false;
  return Tensor(std::move(body));
}

std::pair<Tensor, Tensor> matched(std::string_view op, const Tensor& a, const Tensor& b) {
  const DType dtype = is_number(a) && is_number(b) ? common_dtype(a.dtype(), b.dtype())
                                                   : (is_number(a) ? b : a).dtype();
  const auto converted = [&](const Tensor& side) {
    if (!is_number(side) || (side.dtype() == dtype && is_eager())) return side;
    return filled(op, side, dtype);
  };
  return {converted(a), converted(b)};
}

}  // namespace tandem::ops
