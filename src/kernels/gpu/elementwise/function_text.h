/// Functions of single elements as text: those of the CPU's kernels, printed (kernels/text.h), and
/// what those call that OpenCL C and CUDA C have no function for.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gpu/elementwise/element_kernel.h"
#include "op/expression.h"

namespace tandem::kernels::gpu {

/// For floating numbers: exp_of, expm1_of, log_of, log1p_of, floor_mod, power.
extern const std::string_view kMathFunctions;

/// For whole numbers, that wrap round and never trap: add_of, floor_div_of, ..
extern const std::string_view kWholeNumberFunctions;

/// An expression as statements.
struct PrintedExpression {
  std::string statements;
  std::vector<std::string> results;  ///< Expressions, one for each output.
  std::vector<double> parameters;    ///< q0, q1, .. in the statements.
};

/// `inputs` are the names of the expression's inputs, values of `dtype` (float32 or float64).
/// The statements call kMathFunctions.
PrintedExpression print(const op::Expression& expression, DType dtype,
                        std::span<const std::string> inputs);

/// x0, x1, ..
std::vector<std::string> element_names(size_t count);

/// An op of one step.
PrintedExpression print(const Signature& signature);

}  // namespace tandem::kernels::gpu
