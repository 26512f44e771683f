/// Elements of small integers and of halves are stored, moved and converted. An op that has no
/// kernel for them computes with wider ones, and what it gives is rounded, or wraps round:
///
///   add(int8 a, int8 b)  ->  cast(add(cast(a, int32), cast(b, int32)), int8)
///
/// The three are calls like any others: traced, differentiated and placed as these are.
#pragma once

#include "op/op_def.h"

namespace tandem::op {

/// The dtype that ops compute in for elements of `dtype`; for most that is `dtype`. uint64 has none
/// that holds all of its numbers: what is computed of those from 2^63 on wraps round.
constexpr DType wider(DType dtype) {
  switch (dtype) {
    case DType::float16:
    case DType::bfloat16:
      return DType::float32;
    case DType::uint8:
    case DType::int8:
    case DType::int16:
    case DType::uint16:
      return DType::int32;
    case DType::uint32:
    case DType::uint64:
      return DType::int64;
    default:
      return dtype;
  }
}

/// Whether the op has no kernel for its inputs as they are, and may have one for wider ones.
bool needs_widening(const OpDef& op, const Tensors& inputs);

/// A call of the op with wider inputs. Throws InvalidArgument where inputs that are to have one
/// dtype have not.
Tensors apply_widened(const OpDef& op, const Tensors& inputs, const Attrs& attrs);

}  // namespace tandem::op
