// The functions of single elements, one op each, and `fused`: an expression of them as one kernel.
#include "kernels/cpu/elementwise/pointwise.h"

#include <algorithm>

#include "kernels/gpu/elementwise/function_text.h"

namespace tandem::kernels::gpu {
namespace {

std::vector<DType> dtypes_of(const op::TensorTypes& types) {
  std::vector<DType> dtypes;
  std::ranges::transform(types, std::back_inserter(dtypes), &op::TensorType::dtype);
  return dtypes;
}

ExecutablePtr executable_of(const Signature& s, const Device& device, PrintedExpression printed) {
  const DType dtype = s.outputs[0].dtype;
  return element_executable(
      device,
      {.name = s.op->name,
       .words = types_of(dtype),
       .inputs = dtypes_of(s.inputs),
       .outputs = dtypes_of(s.outputs),
       .functions = {is_floating(dtype) ? kMathFunctions : kWholeNumberFunctions},
       .statements = std::move(printed.statements),
       .results = std::move(printed.results),
       .parameters = std::move(printed.parameters)},
      Loops(s));
}

ExecutablePtr prepare_pointwise(const Signature& s, const Device& device) {
  return executable_of(s, device, print(s));
}

ExecutablePtr prepare_fused(const Signature& s, const Device& device) {
  const op::Expression& expression = *s.attrs.get<op::ExpressionPtr>("expression");
  return executable_of(s, device,
                       print(expression, s.outputs[0].dtype, element_names(s.inputs.size())));
}

template <class T>
void add_functions(op::BackendKernels& kernels, cpu::Functions<T> functions) {
  for (const cpu::Pointwise<T>& function : functions) {
    add_kernel(kernels, function.name, {dtype_of<T>}, prepare_pointwise);
  }
}

template <class T>
void add_floating(op::BackendKernels& kernels) {
  constexpr cpu::Table kTable = cpu::Table::printing;
  add_functions(kernels, cpu::arithmetic_functions<T>(kTable));
  add_functions(kernels, cpu::math_functions<T>(kTable));
  add_functions(kernels, cpu::activation_functions<T>(kTable));
  add_functions(kernels, cpu::selection_functions<T>(kTable));
}

}  // namespace

void register_pointwise(op::BackendKernels& kernels) {
  add_floating<float>(kernels);
  add_floating<double>(kernels);
  add_functions(kernels, cpu::whole_number_functions<int32_t>());
  add_functions(kernels, cpu::whole_number_functions<int64_t>());
  add_functions(kernels, cpu::whole_number_functions<uint8_t>());
  add_kernel(kernels, "fused", {DType::float32, DType::float64}, prepare_fused);
}

}  // namespace tandem::kernels::gpu
