/// The operations on tensors. Each validates its arguments (InvalidArgument names the op and the
/// shapes), runs at once or joins the trace of the function being traced, and is recorded by the
/// open gradient tapes. Any thread may call them.
#pragma once

#include "tandem/ops/activation.h"
#include "tandem/ops/attention.h"
#include "tandem/ops/convolution.h"
#include "tandem/ops/creation.h"
#include "tandem/ops/elementwise.h"
#include "tandem/ops/indexing.h"
#include "tandem/ops/joining.h"
#include "tandem/ops/loss.h"
#include "tandem/ops/matmul.h"
#include "tandem/ops/normalization.h"
#include "tandem/ops/operators.h"
#include "tandem/ops/pooling.h"
#include "tandem/ops/random.h"
#include "tandem/ops/reduction.h"
#include "tandem/ops/shaping.h"
#include "tandem/ops/slicing.h"
#include "tandem/ops/softmax.h"
