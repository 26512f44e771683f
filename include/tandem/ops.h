/// The operations on tensors. Each validates its arguments (InvalidArgument names the op and the
/// shapes), runs at once or joins the trace of the function being traced, and is recorded by the
/// open gradient tapes. Any thread may call them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/ops/activation.h"
#include "tandem/ops/elementwise.h"
#include "tandem/tensor.h"

namespace tandem {

// ---- Products ----

struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};

/// The product of two matrices of one floating dtype.
TANDEM_API Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

// ---- Losses ----

/// Per row of `logits` [rows, classes], the cross-entropy of softmax(logits) against the
/// distribution in the same row of `labels`: a tensor [rows]. Differentiable in the logits.
TANDEM_API Tensor softmax_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits);

/// The mean of a per-example loss over the *global* batch: inside `strategy.run` each replica's sum
/// is divided by the number of examples over all replicas, so that the sum over replicas is the
/// true mean and the summed gradients are its gradient, however unevenly the batch was split.
/// Elsewhere, the mean.
TANDEM_API Tensor compute_average_loss(const Tensor& per_example_loss);

// ---- Reductions ----

struct ReduceOptions {
  std::optional<std::vector<int>>
      axes{};  ///< All axes unless given; negative ones count from the end.
  bool keepdims = false;
};

TANDEM_API Tensor reduce_sum(const Tensor& x, const ReduceOptions& options = {});

/// Within `strategy.run` this is the mean over the replica's own part; see compute_average_loss.
TANDEM_API Tensor reduce_mean(const Tensor& x, const ReduceOptions& options = {});

/// The index of the largest element along `axis`, the first of equals, as int64.
TANDEM_API Tensor argmax(const Tensor& x, int axis = -1);

// ---- Shapes and types ----

/// The same elements with another shape; one size may be -1.
TANDEM_API Tensor reshape(const Tensor& x, const Shape& shape);

/// `x` repeated along axes of size 1, and along new leading axes, to fill `shape`.
TANDEM_API Tensor broadcast_to(const Tensor& x, const Shape& shape);

TANDEM_API Tensor cast(const Tensor& x, DType dtype);

TANDEM_API Tensor fill(const Shape& shape, double value, DType dtype = DType::float32);

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
