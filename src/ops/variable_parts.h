/// Variables that are cut over replicas (VariableCut), as replicas see them: each has a part. The
/// collectives know parts that lie one behind the other; where another axis than the first is cut,
/// what they join is brought into order.
#pragma once

#include "tandem/variable.h"

namespace tandem::ops {

/// The whole of what each replica has a part of, cut as the variable is; `part` itself where the
/// variable is not.
Tensor join_parts(const Tensor& part, const Variable& variable);

/// This replica's part of a value that all have, cut as the variable is; the value itself where it
/// is not.
Tensor own_part(const Tensor& whole, const Variable& variable);

/// This replica's part of the sum over the replicas of `whole`, for a variable whose elements are
/// cut in their order. It is made as soon as it can be, or where it `waits`, in its turn.
Tensor sum_to_part(const Tensor& whole, const Variable& variable, bool waits);

/// The whole of a variable, for a function that runs on no replica.
Tensor read_parts(const Variable& variable);

}  // namespace tandem::ops
