/// Values of replicas meeting each other, as ordinary ops. In a group of one each is the identity,
/// so that a program for one device has no trace of distribution in it.
#pragma once

#include "tandem/tensor.h"

namespace tandem::collective {

/// Which replicas meet.
enum class Axis {
  all,    ///< Those of all processes.
  model,  ///< Those that have the same rows of the batch; see parts.h.
};

/// What the gradient of a sum over replicas is.
enum class SumGradient {
  sum,   ///< Replicas compute different things from it: the sum of their gradients.
  same,  ///< All compute the same from it: each one's gradient.
};

/// The number of replicas that meet, in the function that is being traced; 1 elsewhere.
int group_size(Axis axis = Axis::all);

/// The number of this replica among them: an int32 scalar.
Tensor replica_id();

/// The rows of the batch, each as often as there are replicas that have it, in a function that is
/// traced for several: a float64 scalar, known without a meeting.
Tensor global_rows();

/// The sum over the replicas of each tensor, on each replica. Every element is summed once, in the
/// order of collective/tree.h, so all replicas see the same bits. Along Axis::model values may
/// follow the batch.
Tensors all_reduce(const Tensors& values, Axis axis = Axis::all,
                   SumGradient gradient = SumGradient::sum);

/// The sum over the replicas that have parts of the same whole, of which there are so many.
Tensor sum_over_parts(const Tensor& value, int parts);

/// The sums over the replicas that have the same one of so many parts of a variable.
Tensors sum_over_holders(const Tensors& values, int parts);

}  // namespace tandem::collective
