/// Values of replicas meeting each other, as ordinary ops. In a group of one each is the identity,
/// so that a program for one device has no trace of distribution in it.
#pragma once

#include "tandem/tensor.h"

namespace tandem::collective {

/// The number of replicas that the function being traced is for; 1 elsewhere.
int group_size();

/// The number of this replica among them: an int32 scalar.
Tensor replica_id();

/// The sum over all replicas of each tensor, on each replica. Every element is summed once, in the
/// order of the ranks, so all replicas see the same bits.
Tensors all_reduce(const Tensors& values);

}  // namespace tandem::collective
