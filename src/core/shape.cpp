#include "tandem/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/sizes.h"
#include "tandem/error.h"

namespace tandem {
namespace {

std::string size_name(int64_t size) {
  if (size >= 0) return std::to_string(size);
  return size == -1 ? "rows" : fmt::format("{}*rows", -static_cast<uint64_t>(size));
}

/// Throws InvalidArgument unless the sizes multiply to kMaxCount at most. Sizes of 0 do not count:
/// there may be none where the others are used.
const Shape& checked(const Shape& shape) {
  int64_t product = 1;
  for (int64_t size : shape.sizes()) {
    if (size == 0) continue;
    const int64_t room = Shape::kMaxCount / product;
    if (size > room || size < -room) {
      throw InvalidArgument(
          fmt::format("shape: {} is too large, at most 2^58 elements are supported", shape.str()));
    }
    product *= size < 0 ? -size : size;
  }
  return shape;
}

}  // namespace

Shape::Shape(std::initializer_list<int64_t> sizes)
    : Shape(std::span<const int64_t>(sizes.begin(), sizes.size())) {}

Shape::Shape(std::span<const int64_t> sizes) {
  if (sizes.size() > kMaxRank) {
    throw InvalidArgument(
        fmt::format("shape: {} axes given, at most {} are supported", sizes.size(), kMaxRank));
  }
  rank_ = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  if (std::count_if(sizes.begin(), sizes.end(), [](int64_t s) { return s < 0; }) > 1) {
    throw InvalidArgument(
        fmt::format("shape: {} depends on the number of rows in more than one axis", str()));
  }
  checked(*this);
}

int64_t Shape::count() const {
  int64_t product = 1;
  for (int64_t size : sizes()) product *= size;
  return product;
}

bool Shape::is_symbolic() const {
  return std::any_of(sizes_.begin(), sizes_.begin() + rank_, [](int64_t s) { return s < 0; });
}

Shape Shape::resolved(int64_t rows) const {
  Shape result = *this;
  for (int axis = 0; axis < rank_; ++axis) {
    if (sizes_[axis] < 0) result.sizes_[axis] = size_product(-sizes_[axis], rows);
  }
  return checked(result);
}

Shape Shape::with(int axis, int64_t size) const {
  Shape result = *this;
  result.sizes_[axis] = size;
  return checked(result);
}

Shape Shape::without(int axis) const {
  Shape result = *this;
  std::copy(sizes_.begin() + axis + 1, sizes_.begin() + rank_, result.sizes_.begin() + axis);
  result.sizes_[--result.rank_] = 0;
  return result;
}

Shape Shape::inserted(int axis, int64_t size) const {
  std::array<int64_t, kMaxRank + 1> sizes{};
  std::copy(sizes_.begin(), sizes_.begin() + axis, sizes.begin());
  sizes[axis] = size;
  std::copy(sizes_.begin() + axis, sizes_.begin() + rank_, sizes.begin() + axis + 1);
  return Shape(std::span<const int64_t>(sizes.data(), static_cast<size_t>(rank_ + 1)));
}

std::string Shape::str() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ',';
    text += size_name(sizes_[axis]);
  }
  return text + "]";
}

bool Shape::operator==(const Shape& other) const {
  return std::ranges::equal(sizes(), other.sizes());
}

}  // namespace tandem
