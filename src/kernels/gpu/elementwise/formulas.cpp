// Ops of other families that are functions of single elements: each is a formula.
#include "kernels/gpu/elementwise/function_text.h"

namespace tandem::kernels::gpu {
namespace {

const std::vector<DType>& floating() {
  static const std::vector<DType> dtypes = {DType::float32, DType::float64};
  return dtypes;
}

/// `share`: the inverse of a positive number, else 0.
ExecutablePtr prepare_share(const Signature& s, const Device& device) {
  const DType dtype = s.inputs[0].dtype;
  return element_executable(device,
                            {.name = "share",
                             .words = types_of(dtype),
                             .inputs = {dtype},
                             .outputs = {dtype},
                             .results = {"x0 > 0 ? 1 / x0 : (C)0"}},
                            Loops(s));
}

ExecutablePtr prepare_inverse_deviation(const Signature& s, const Device& device) {
  const DType dtype = s.inputs[0].dtype;
  return element_executable(device,
                            {.name = "inverse_deviation",
                             .words = types_of(dtype),
                             .inputs = {dtype},
                             .outputs = {dtype},
                             .results = {"1 / sqrt(x0 + q0)"},
                             .parameters = {s.attrs.get<double>("epsilon")}},
                            Loops(s));
}

/// Elements that dropout kept are scaled.
ExecutablePtr prepare_dropout_keep(const Signature& s, const Device& device) {
  const DType dtype = s.inputs[0].dtype;
  return element_executable(device,
                            {.name = "dropout_keep",
                             .words = types_of(dtype),
                             .inputs = {dtype, s.inputs[1].dtype},
                             .outputs = {dtype},
                             .results = {"x1 != 0 ? x0 * q0 : (C)0"},
                             .parameters = {1 / (1 - s.attrs.get<double>("rate"))}},
                            Loops(s));
}

/// With e = exp(-|x|), which cannot overflow:
///   loss = max(x, 0) - x label + log(1 + e)
///   backprop = (x < 0 ? e : 1) / (1 + e) - label
ExecutablePtr prepare_sigmoid_cross_entropy(const Signature& s, const Device& device) {
  const DType dtype = s.inputs[0].dtype;
  return element_executable(device,
                            {.name = "sigmoid_cross_entropy",
                             .words = types_of(dtype),
                             .inputs = {dtype, dtype},
                             .outputs = {dtype, dtype},
                             .functions = {kMathFunctions},
                             .statements = "const C e = exp_of(-fabs(x0));\n",
                             .results = {"fma(-x0, x1, x0 < 0 ? (C)0 : x0) + log1p_of(e)",
                                         "(x0 < 0 ? e : (C)1) / (1 + e) - x1"}},
                            Loops(s));
}

}  // namespace

void register_formulas(op::BackendKernels& kernels) {
  add_kernel(kernels, "share", floating(), prepare_share);
  add_kernel(kernels, "inverse_deviation", floating(), prepare_inverse_deviation);
  add_kernel(kernels, "dropout_keep", floating(), prepare_dropout_keep);
  add_kernel(kernels, "sigmoid_cross_entropy", floating(), prepare_sigmoid_cross_entropy);
}

}  // namespace tandem::kernels::gpu
