/// Losses from raw scores ("logits"), one per example, and their mean over the batch. float32 or
/// float64; differentiable any number of times in all floating arguments.
#pragma once

#include "tandem/tensor.h"

namespace tandem {

struct CrossEntropyOptions {
  /// The labels of each line count as a distribution, whatever they sum to: the gradient by the
  /// logits is softmax(logits) - labels, as in TensorFlow. Else it is softmax(logits) sum(labels) -
  /// labels.
  bool labels_sum_to_one = false;
};

/// For each line of `logits` [.., classes] the cross-entropy of softmax(logits) against the
/// distribution in the same line of `labels`, which has the same shape and dtype: a tensor [..].
/// Throws InvalidArgument when shapes or dtypes differ, or there is no axis of classes.
TANDEM_API Tensor softmax_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits,
                                                    const CrossEntropyOptions& options = {});

/// The same against one class each: `labels` [..] (int32 or int64) holds the class of each line of
/// `logits` [.., classes]. Throws InvalidArgument when the shapes do not agree, and, naming label,
/// row and classes, when a label is not in [0, classes); on a device that computes later, at the
/// next wait.
TANDEM_API Tensor sparse_softmax_cross_entropy_with_logits(const Tensor& labels,
                                                           const Tensor& logits);

/// Element by element the cross-entropy of sigmoid(logits) against the probability in `labels`, for
/// classes that do not exclude each other: a tensor of their common shape. Does not overflow.
/// Throws InvalidArgument when shapes or dtypes differ.
TANDEM_API Tensor sigmoid_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits);

/// The mean of a per-example loss over the *global* batch: inside `strategy.run` each replica's sum
/// is divided by the number of examples over all replicas, so that the sum over replicas is the
/// true mean and the summed gradients are its gradient, however unevenly the batch was split.
/// Elsewhere, the mean.
TANDEM_API Tensor compute_average_loss(const Tensor& per_example_loss);

}  // namespace tandem
