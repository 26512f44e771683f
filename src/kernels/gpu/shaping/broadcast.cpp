// broadcast_to: repeats a tensor along axes of size 1 or that it does not have, and scales it where
// a mean's gradient asks for that (ops::Scale).
#include "kernels/gpu/elementwise/element_kernel.h"
#include "kernels/gpu/step.h"
#include "ops/reduction/reduction_rules.h"

namespace tandem::kernels::gpu {
namespace {

/// Types that are only moved; sums, and with them scales, exist for the floating ones.
ExecutablePtr prepare_copy(const Signature& s, const Device& device) {
  const DType dtype = s.outputs[0].dtype;
  return element_executable(
      device, {.name = "broadcast_to", .inputs = {dtype}, .outputs = {dtype}, .results = {"x0"}},
      Loops(s));
}

ElementKernel scaled_kernel(const Signature& s, const Device& device, double scale) {
  const DType dtype = s.outputs[0].dtype;
  return ElementKernel(device,
                       {.name = "broadcast_to",
                        .words = types_of(dtype),
                        .inputs = {dtype},
                        .outputs = {dtype},
                        .results = {"x0 * q0"},
                        .parameters = {scale}},
                       Loops(s));
}

/// The number of rows in the batch is only known on the device.
ElementKernel globally_scaled_kernel(const Signature& s, const Device& device, int64_t divisor) {
  const DType dtype = s.outputs[0].dtype;
  return ElementKernel(device,
                       {.name = "broadcast_to",
                        .words = types_of(dtype),
                        .inputs = {dtype},
                        .outputs = {dtype},
                        .functions = {kStepFunctions},
                        .before = "  const C scale = (C)step_global_factor(step, (i64)d0);\n",
                        .results = {"x0 * scale"},
                        .parameters = {static_cast<double>(divisor)},
                        .uses_step = true},
                       Loops(s));
}

ExecutablePtr prepare_scaled(const Signature& s, const Device& device) {
  const auto scale = static_cast<ops::Scale>(s.attrs.get<int64_t>("scale"));
  if (scale == ops::Scale::none) return prepare_copy(s, device);
  if (scale == ops::Scale::mean) {
    const int64_t from = count_of(s.inputs[0]);
    const auto meeting = static_cast<double>(from == 0 ? 0 : count_of(s.outputs[0]) / from);
    return op::executable([kernel = scaled_kernel(s, device, 1 / meeting)](const Launch& launch) {
      kernel.run(launch);
    });
  }
  // An eager call has the scalars of no step.
  const int64_t divisor = s.attrs.get<int64_t>("divisor");
  return op::executable(
      [in_step = globally_scaled_kernel(s, device, divisor),
       alone = scaled_kernel(s, device, ops::global_factor(divisor, {}))](const Launch& launch) {
        (launch.device_step == nullptr ? alone : in_step).run(launch);
      });
}

}  // namespace

void register_broadcast(op::BackendKernels& kernels) {
  add_kernel(kernels, "broadcast_to", {DType::float32, DType::float64}, prepare_scaled);
  std::vector<DType> copied = all_dtypes();
  std::erase(copied, DType::float32);
  std::erase(copied, DType::float64);
  add_kernel(kernels, "broadcast_to", copied, prepare_copy);
}

}  // namespace tandem::kernels::gpu
