// Activations together with their slopes: the CPU's functions, printed.
#include "kernels/cpu/elementwise/pointwise.h"
#include "kernels/gpu/elementwise/function_text.h"

namespace tandem::kernels::gpu {
namespace {

template <class T>
void add_functions(op::BackendKernels& kernels) {
  for (const cpu::SlopeFunction<T>& function : cpu::slope_functions<T>(cpu::Table::printing)) {
    const auto prepare = [print = function.print](const Signature& s, const Device& device) {
      text::Listing listing;
      text::Text value, slope;
      print(listing, {&listing, "x0"}, &value, &slope);
      return element_executable(device,
                                {.name = s.op->name,
                                 .words = types_of(dtype_of<T>),
                                 .inputs = {dtype_of<T>},
                                 .outputs = {dtype_of<T>, dtype_of<T>},
                                 .functions = {kMathFunctions},
                                 .statements = listing.str(),
                                 .results = {value.name, slope.name}},
                                Loops(s));
    };
    add_kernel(kernels, function.name, {dtype_of<T>}, prepare);
  }
}

}  // namespace

void register_activation_slopes(op::BackendKernels& kernels) {
  add_functions<float>(kernels);
  add_functions<double>(kernels);
}

}  // namespace tandem::kernels::gpu
