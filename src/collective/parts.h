/// Values of which each of the replicas along Axis::model has a part. A layer that leaves such a
/// value marks it; ops that work element by element keep the mark, and others refuse the value
/// (Trace::cut_axis), so that nobody takes a part for the whole.
#pragma once

#include "graph/trace.h"
#include "tandem/tensor.h"

namespace tandem::op {
class Registry;
}

namespace tandem::collective {

/// While it lives, ops may read parts: their caller knows what it does.
using PartsScope = graph::Trace::PartsScope;

/// The axis along which `x` is cut; -1: it is whole.
int cut_axis(const Tensor& x);

/// `part`, marked as cut along `axis`.
Tensor marked_part(const Tensor& part, int axis);

/// This replica's number among those along Axis::model: an int32 scalar.
Tensor model_rank();

/// This replica's part of a value that all have, unmarked. Throws InvalidArgument where the size of
/// the axis is no multiple of their number.
Tensor own_part(const Tensor& whole, int axis);

/// The value whose part `x` is, on all replicas along Axis::model; `x` itself where it is whole.
Tensor gather_parts(const Tensor& x);

/// The shape of that value.
Shape whole_shape(const Tensor& x);

void register_parts(op::Registry& registry);

}  // namespace tandem::collective
