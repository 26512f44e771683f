/// Parts of a tensor, and a tensor as part of a larger one. Every dtype; any thread may call them.
///
/// The batch axis of a traced function has no size yet: whole it may stay, cut or padded it makes
/// the function be traced for each number of rows (and is InvalidArgument in `strategy.run`).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tandem/tensor.h"
#include "tandem/tensor/index.h"

namespace tandem {

/// Elements [begin, begin + size) of each axis; a size of -1 goes on to the end. Throws
/// InvalidArgument when that is not within `x`, or not one number is given for each axis.
TANDEM_API Tensor slice(const Tensor& x, const std::vector<int64_t>& begin,
                        const std::vector<int64_t>& size);

/// A stride (index.h) for each of the leading axes; the others are whole. Throws InvalidArgument
/// for a step of 0 and for more strides than axes.
TANDEM_API Tensor strided_slice(const Tensor& x, const std::vector<Stride>& strides);

struct PadOptions {
  double value = 0;
};

/// `x` with so many elements of the value before and after it along each axis. Throws
/// InvalidArgument for a negative number, or when not one pair is given for each axis.
TANDEM_API Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& paddings,
                      const PadOptions& options = {});

}  // namespace tandem
