// Shapes, and the one place where sizes are checked: whatever multiplies to more than kMaxCount
// elements is refused here, so that nobody else's arithmetic on sizes can overflow.
#include "tandem/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/batch_rows.h"
#include "core/sizes.h"
#include "tandem/error.h"

namespace tandem {
namespace core {
namespace {

thread_local BatchRows* current_rows = nullptr;

}  // namespace

BatchRows* BatchRows::current() { return current_rows; }

BatchRows::Scope::Scope(BatchRows* rows) : former_(std::exchange(current_rows, rows)) {}
BatchRows::Scope::~Scope() { current_rows = former_; }

}  // namespace core

namespace {

/// Throws InvalidArgument unless the sizes multiply to kMaxCount at most. Sizes of 0 do not count:
/// there may be none where the others are used.
const Shape& checked(const Shape& shape) {
  int64_t product = 1;
  for (int64_t extent : shape.extents()) {
    if (extent == 0) continue;
    const int64_t room = Shape::kMaxCount / product;
    if (extent > room || extent < -room) {
      throw InvalidArgument(
          fmt::format("shape: {} is too large, at most 2^58 elements are supported", shape.str()));
    }
    product *= extent < 0 ? -extent : extent;
  }
  return shape;
}

}  // namespace

int64_t Size::known() const {
  core::BatchRows* rows = core::BatchRows::current();
  if (rows == nullptr) {
    throw FailedPrecondition(
        "a size that depends on the rows of a batch is read where there is no batch; use shape(x), "
        "the sizes as a tensor, or -1 in reshape");
  }
  return size_product(-extent_, rows->fix());
}

void Size::throw_too_large() { throw InvalidArgument("shape: a size above 2^63"); }

Size operator*(Size a, Size b) {
  if (a.extent() < 0 && b.extent() < 0) {
    throw InvalidArgument("shape: a product of two sizes that depend on the rows of a batch");
  }
  Size product = size_product(a.extent(), b.extent());
  product.open_ = a.open_ || b.open_;
  return product;
}

std::string Size::str() const { return extent_ >= 0 ? std::to_string(extent_) : "None"; }

Shape::Shape(std::initializer_list<Size> sizes) {
  std::array<int64_t, kMaxRank> extents{};
  const size_t count = std::min(sizes.size(), extents.size());
  std::transform(sizes.begin(), sizes.begin() + count, extents.begin(),
                 [](Size size) { return size.extent(); });
  *this = Shape(std::span<const int64_t>(extents.data(), count));
  check_rank(sizes.size());
  open_ = std::ranges::any_of(sizes, &Size::is_open);
}

Shape::Shape(std::span<const int64_t> extents) {
  check_rank(extents.size());
  rank_ = static_cast<int>(extents.size());
  std::ranges::copy(extents, extents_.begin());
  open_ = is_symbolic();
  checked(*this);
}

Shape Shape::of_batch() const {
  Shape result = *this;
  result.open_ = false;
  return result;
}

void Shape::check_rank(size_t axes) {
  if (axes <= kMaxRank) return;
  throw InvalidArgument(
      fmt::format("shape: {} axes given, at most {} are supported", axes, kMaxRank));
}

int64_t Shape::total_extent() const {
  int64_t product = 1;
  int open = 0;
  for (int64_t extent : extents()) {
    product *= extent;
    open += extent < 0 ? 1 : 0;
  }
  if (open > 1) {
    throw InvalidArgument(
        fmt::format("shape: {} depends on the rows of the batch in more than one axis", str()));
  }
  return product;
}

bool Shape::is_symbolic() const {
  return std::ranges::any_of(extents(), [](int64_t extent) { return extent < 0; });
}

Shape Shape::resolved(int64_t rows) const {
  Shape result = *this;
  for (int axis = 0; axis < rank_; ++axis) {
    if (extents_[axis] < 0) result.extents_[axis] = size_product(-extents_[axis], rows);
  }
  result.open_ = false;
  return checked(result);
}

Shape Shape::with(int axis, Size size) const {
  Shape result = *this;
  result.extents_[axis] = size.extent();
  result.open_ = result.is_symbolic() && (open_ || size.is_open());
  return checked(result);
}

Shape Shape::without(int axis) const {
  Shape result = *this;
  std::copy(extents_.begin() + axis + 1, extents_.begin() + rank_, result.extents_.begin() + axis);
  result.extents_[--result.rank_] = 0;
  return result;
}

Shape Shape::inserted(int axis, Size size) const {
  std::array<int64_t, kMaxRank + 1> extents{};
  std::copy(extents_.begin(), extents_.begin() + axis, extents.begin());
  extents[axis] = size.extent();
  std::copy(extents_.begin() + axis, extents_.begin() + rank_, extents.begin() + axis + 1);
  Shape result(std::span<const int64_t>(extents.data(), static_cast<size_t>(rank_ + 1)));
  result.open_ = result.is_symbolic() && (open_ || size.is_open());
  return result;
}

std::string Shape::str() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ',';
    text += (*this)[axis].str();
  }
  return text + "]";
}

bool Shape::operator==(const Shape& other) const {
  return std::ranges::equal(extents(), other.extents());
}

}  // namespace tandem
