/// The sizes of attention and where its operands lie, whatever the backend.
#pragma once

#include <cstdint>

#include "kernels/nest.h"
#include "op/op_def.h"

namespace tandem::kernels {

enum class MaskKind { none, boolean, additive };

struct AttentionShape {
  int64_t batch = 0, heads = 0, queries = 0, keys = 0;
  int64_t width = 0, value_width = 0;
  bool causal = false;
  double scale = 1;
  MaskKind mask = MaskKind::none;
  int64_t mask_query_step = 0, mask_key_step = 0;

  /// A call with query, key and value from input `first` on; see AttentionMask for the mask.
  static AttentionShape of(const op::Signature& s, size_t first);

  int64_t pairs() const { return batch * heads; }
};

inline AttentionShape AttentionShape::of(const op::Signature& s, size_t first) {
  const Shape& query = s.inputs[first].shape;
  const Shape& value = s.inputs[query.rank() == 5 ? first : first + 2].shape;
  return {.batch = query[0],
          .heads = query[query.rank() - 2],
          .queries = query[1],
          .keys = value[1],
          .width = query[query.rank() - 1],
          .value_width = value[value.rank() - 1],
          .causal = s.attrs.get<bool>("causal"),
          .scale = s.attrs.get<double>("scale")};
}

/// Where an operand [batch, tokens, heads, width] has the tokens of a head; or one of query, key
/// and value that lie together [batch, tokens, 3, heads, width]; or a value for each token and head
/// [batch, tokens, heads]. Distances are in elements.
struct AttentionOperand {
  AttentionOperand(int operand, const Shape& shape, int part = 0) : index(operand) {
    const bool together = shape.rank() == 5;
    const int64_t heads = shape[together ? 3 : 2];
    head_step = shape.rank() == 3 ? 1 : shape.extent(shape.rank() - 1);
    step = (together ? 3 : 1) * heads * head_step;
    batch_step = shape[1] * step;
    start = together ? part * heads * head_step : 0;
  }

  int64_t offset(int64_t batch, int64_t head) const {
    return start + batch * batch_step + head * head_step;
  }

  int index;  ///< Its place among the inputs or outputs.
  int64_t start, batch_step, head_step;
  int64_t step;  ///< From one token to the next.
};

/// Query, key and value: operands from `first` on, or all in that one.
struct AttentionOperands {
  AttentionOperands(int first, const op::TensorTypes& types)
      : count(types[static_cast<size_t>(first)].shape.rank() == 5 ? 1 : 3),
        query(operand(first, types, 0)),
        key(operand(first, types, 1)),
        value(operand(first, types, 2)) {}

  int count;
  AttentionOperand query, key, value;

 private:
  AttentionOperand operand(int first, const op::TensorTypes& types, int part) const {
    const int index = count == 1 ? first : first + part;
    return {index, types[static_cast<size_t>(index)].shape, part};
  }
};

/// The mask, the last input if there is one, for each batch entry and head. Tells `shape` of it.
struct AttentionMask {
  AttentionMask(const op::Signature& s, AttentionShape& shape) {
    if (!s.attrs.get<bool>("masked")) return;
    const op::TensorType& mask = s.inputs.back();
    const Shape all{shape.batch, shape.heads, shape.queries, shape.keys};
    const auto step_along = [&](int axis) { return broadcast_stride(mask.shape, all, axis); };
    shape.mask = mask.dtype == DType::boolean ? MaskKind::boolean : MaskKind::additive;
    shape.mask_query_step = step_along(2);
    shape.mask_key_step = step_along(3);
    index = static_cast<int>(s.inputs.size()) - 1;
    element = static_cast<int64_t>(size_of(mask.dtype));
    batch_step = step_along(0);
    head_step = step_along(1);
  }

  /// In bytes.
  int64_t offset(int64_t batch, int64_t head) const {
    return (batch * batch_step + head * head_step) * element;
  }

  int index = -1;       ///< Its place among the inputs.
  int64_t element = 1;  ///< The bytes of one.
  int64_t batch_step = 0, head_step = 0;
};

}  // namespace tandem::kernels
