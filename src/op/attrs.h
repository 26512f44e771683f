/// The named constants of an op's call: `{{"transpose_a", true}}`. Names are string literals.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tandem/dtype.h"
#include "tandem/shape.h"

namespace tandem::op {

struct Expression;
using ExpressionPtr = std::shared_ptr<const Expression>;

using AttrValue =
    std::variant<int64_t, double, bool, DType, Shape, std::vector<int64_t>, ExpressionPtr>;

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string_view, AttrValue>> values) : values_(values) {}

  /// The value of a name that the op's own function has set. Throws std::bad_variant_access or
  /// NotFound: both are bugs of the op, not of its user.
  template <class T>
  const T& get(std::string_view name) const {
    return std::get<T>(find(name));
  }

  /// A copy with `name` set to `value`.
  Attrs with(std::string_view name, AttrValue value) const;

  /// A copy with symbolic shapes replaced, as Shape::resolved().
  Attrs resolved(int64_t rows) const;

  bool empty() const { return values_.empty(); }
  size_t hash() const;
  std::string str() const;  ///< "transpose_a=true, axes=[0]"
  /// Numbers are the same if their bits are: -0.0 is not 0.0, NaN is NaN.
  bool operator==(const Attrs& other) const;

 private:
  const AttrValue& find(std::string_view name) const;

  std::vector<std::pair<std::string_view, AttrValue>> values_;
};

}  // namespace tandem::op
