/// The operations on tensors. Each validates its arguments (InvalidArgument names the op and the
/// shapes), runs at once or joins the trace of the function being traced, and is recorded by the
/// open gradient tapes. Any thread may call them.
#pragma once

#include <cstdint>

#include "tandem/ops/activation.h"
#include "tandem/ops/convolution.h"
#include "tandem/ops/creation.h"
#include "tandem/ops/elementwise.h"
#include "tandem/ops/indexing.h"
#include "tandem/ops/joining.h"
#include "tandem/ops/matmul.h"
#include "tandem/ops/reduction.h"
#include "tandem/ops/shaping.h"
#include "tandem/ops/slicing.h"
#include "tandem/tensor.h"

namespace tandem {


// ---- Losses ----

/// Per row of `logits` [rows, classes], the cross-entropy of softmax(logits) against the
/// distribution in the same row of `labels`: a tensor [rows]. Differentiable in the logits.
TANDEM_API Tensor softmax_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits);

/// The mean of a per-example loss over the *global* batch: inside `strategy.run` each replica's sum
/// is divided by the number of examples over all replicas, so that the sum over replicas is the
/// true mean and the summed gradients are its gradient, however unevenly the batch was split.
/// Elsewhere, the mean.
TANDEM_API Tensor compute_average_loss(const Tensor& per_example_loss);

// ---- Random numbers: a function of (seed, call, position in the global batch) alone ----

struct RandomOptions {
  DType dtype = DType::float32;
  uint64_t seed = 0;
};

TANDEM_API Tensor random_normal(const Shape& shape, double mean = 0, double stddev = 1,
                                const RandomOptions& options = {});
TANDEM_API Tensor random_uniform(const Shape& shape, double minval = 0, double maxval = 1,
                                 const RandomOptions& options = {});

}  // namespace tandem
