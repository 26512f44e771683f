// Comparisons and logic, whose results are bools.
#include "kernels/gpu/elementwise/element_kernel.h"

namespace tandem::kernels::gpu {
namespace {

void add(op::BackendKernels& kernels, std::string_view op, const std::vector<DType>& dtypes,
         std::string result) {
  add_kernel(kernels, op, dtypes, [result](const Signature& s, const Device& device) {
    return element_executable(device,
                              {.name = s.op->name,
                               .inputs = std::vector<DType>(s.inputs.size(), s.inputs[0].dtype),
                               .outputs = {DType::boolean},
                               .results = {result}},
                              Loops(s));
  });
}

}  // namespace

void register_comparison(op::BackendKernels& kernels) {
  const std::vector<DType> floating = {DType::float32, DType::float64};
  const std::vector<DType> ordered = {DType::float32, DType::float64, DType::int32, DType::int64,
                                      DType::uint8};
  std::vector<DType> all = ordered;
  all.push_back(DType::boolean);
  const std::vector<DType> bools = {DType::boolean};
  add(kernels, "equal", all, "x0 == x1");
  add(kernels, "not_equal", all, "x0 != x1");
  add(kernels, "less", ordered, "x0 < x1");
  add(kernels, "less_equal", ordered, "x0 <= x1");
  add(kernels, "greater", ordered, "x0 > x1");
  add(kernels, "greater_equal", ordered, "x0 >= x1");
  add(kernels, "logical_and", bools, "x0 && x1");
  add(kernels, "logical_or", bools, "x0 || x1");
  add(kernels, "logical_xor", bools, "x0 != x1");
  add(kernels, "logical_not", bools, "!x0");
  add(kernels, "is_nan", floating, "x0 != x0");
  add(kernels, "is_inf", floating, "fabs(x0) == INFINITY");
  add(kernels, "is_finite", floating, "fabs(x0) < INFINITY");
}

}  // namespace tandem::kernels::gpu
