/// The operations on tensors. Each validates its arguments (InvalidArgument names the op and the
/// shapes), runs at once or joins the trace of the function being traced, and is recorded by the
/// open gradient tapes. Any thread may call them.
#pragma once

#include "tandem/ops/activation.h"
#include "tandem/ops/convolution.h"
#include "tandem/ops/creation.h"
#include "tandem/ops/elementwise.h"
#include "tandem/ops/indexing.h"
#include "tandem/ops/joining.h"
#include "tandem/ops/loss.h"
#include "tandem/ops/matmul.h"
#include "tandem/ops/normalization.h"
#include "tandem/ops/pooling.h"
#include "tandem/ops/reduction.h"
#include "tandem/ops/shaping.h"
#include "tandem/ops/slicing.h"
#include "tandem/ops/softmax.h"
#include "tandem/tensor.h"

namespace tandem {

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
