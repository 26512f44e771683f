/// Values of replicas meeting each other, as ordinary ops. In a group of one each is the identity,
/// so that a program for one device has no trace of distribution in it.
#pragma once

#include "tandem/tensor.h"

namespace tandem::collective {

/// Along which of their axes replicas meet. Those of all processes lie along `data`: each has its
/// rows of the batch.
enum class Axis { data };

/// What the gradient of a sum over replicas is.
enum class SumGradient {
  sum,   ///< Replicas compute different things from it: the sum of their gradients.
  same,  ///< All compute the same from it: each one's gradient.
};

/// The number of replicas that the function being traced is for; 1 elsewhere.
int group_size(Axis axis = Axis::data);

/// The number of this replica among them: an int32 scalar.
Tensor replica_id();

/// The rows of the batch over all replicas, in a function that is traced for several: a float64
/// scalar, known without a meeting.
Tensor global_rows();

/// The sum over all replicas of each tensor, on each replica. Every element is summed once, in the
/// order of collective/tree.h, so all replicas see the same bits.
Tensors all_reduce(const Tensors& values, Axis axis = Axis::data,
                   SumGradient gradient = SumGradient::sum);

}  // namespace tandem::collective
