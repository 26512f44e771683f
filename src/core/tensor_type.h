/// What a tensor is before it has values: its element type and its shape.
#pragma once

#include <string>
#include <vector>

#include "tandem/dtype.h"
#include "tandem/shape.h"

namespace tandem {

struct TensorType {
  DType dtype{};
  Shape shape;

  /// The type of a tensor whose rows are so many, where this leaves that open.
  TensorType resolved(int64_t rows) const { return {dtype, shape.resolved(rows)}; }

  /// The size of a tensor whose rows are so many.
  size_t bytes(int64_t rows = 0) const {
    return static_cast<size_t>(shape.resolved(rows).total_extent()) * size_of(dtype);
  }

  std::string str() const;  ///< "float32[None,784]"

  bool operator==(const TensorType&) const = default;
};

using TensorTypes = std::vector<TensorType>;

/// The type of a tensor, a variable, or what else has a dtype() and a shape().
template <class Typed>
TensorType type_of(const Typed& typed) {
  return {typed.dtype(), typed.shape()};
}

template <class List>
TensorTypes types_of(const List& list) {
  TensorTypes types;
  types.reserve(list.size());
  for (const auto& typed : list) types.push_back(type_of(typed));
  return types;
}

/// "float32[128,784], int32[128]"
std::string listed(const TensorTypes& types);

}  // namespace tandem
