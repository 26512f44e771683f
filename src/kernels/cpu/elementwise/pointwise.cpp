#include "kernels/cpu/elementwise/pointwise.h"

#include <type_traits>

#include "kernels/nest.h"
#include "kernels/part.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

using op::ExecutablePtr;
using op::Launch;
using op::Signature;

template <class T>
auto all_functions([[maybe_unused]] Table table = Table::fastest) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::array{arithmetic_functions<T>(table), math_functions<T>(table),
                      activation_functions<T>(table), selection_functions<T>(table)};
  } else {
    return std::array{whole_number_functions<T>()};
  }
}

template <class T, size_t kFamilies>
const Pointwise<T>* find(const std::array<Functions<T>, kFamilies>& families, std::string_view op) {
  for (const Functions<T>& family : families) {
    for (const Pointwise<T>& function : family) {
      if (function.name == op) return &function;
    }
  }
  return nullptr;
}

template <class T>
ExecutablePtr prepare_unary(const Pointwise<T>& function, const Signature& s) {
  return op::executable([run = function.runs[1], parameters = function.parameters(s.attrs),
                         split = RowSplit(s.outputs[0].shape)](const Launch& launch) {
    const auto [begin, end] = split.part(launch);
    const T* x = launch.in<T>(0) + begin;
    run(&x, launch.out<T>(0) + begin, end - begin, parameters.data());
  });
}

template <class T>
ExecutablePtr prepare_binary(const Pointwise<T>& function, const Signature& s) {
  Nest<2> outer = broadcast_nest<2>(s);
  const Axis<2> inner = outer.take_inner();
  const std::array<int64_t, 2> steps = inner.strides;
  // Where both stay, the run is one point.
  const size_t going_on = (steps[0] != 0 ? 1 : 0) + (steps[1] != 0 ? 2 : 0);
  return op::executable([outer, inner_size = inner.size, steps, run = function.runs[going_on],
                         parameters = function.parameters(s.attrs),
                         split = RowSplit(s.outputs[0].shape)](const Launch& launch) {
    const auto [begin, end] = split.part(launch);
    const T* a = launch.in<T>(0);
    const T* b = launch.in<T>(1);
    T* out = launch.out<T>(0);
    for_each_run(outer, inner_size, begin, end,
                 [&](const Position<2>& at, int64_t first, int64_t count, int64_t index) {
                   const std::array<const T*, 2> inputs = {a + at.offset(0) + first * steps[0],
                                                           b + at.offset(1) + first * steps[1]};
                   run(inputs.data(), out + index, count, parameters.data());
                 });
  });
}

template <class T>
ExecutablePtr prepare_pointwise(const Signature& s, int) {
  const Pointwise<T>& function = *find_pointwise<T>(s.op->name);
  return function.inputs == 1 ? prepare_unary(function, s) : prepare_binary(function, s);
}

template <class T>
void register_type(op::BackendKernels& kernels) {
  for (const Functions<T>& family : all_functions<T>()) {
    for (const Pointwise<T>& function : family) {
      kernels.add(function.name, {dtype_of<T>}, prepare_pointwise<T>);
    }
  }
}

}  // namespace

template <class T>
const Pointwise<T>* find_pointwise(std::string_view op) {
  return find(all_functions<T>(), op);
}

template <class T>
const Pointwise<T>* find_printable(std::string_view op) {
  return find(all_functions<T>(Table::printing), op);
}

template const Pointwise<float>* find_pointwise(std::string_view);
template const Pointwise<double>* find_pointwise(std::string_view);
template const Pointwise<int32_t>* find_pointwise(std::string_view);
template const Pointwise<int64_t>* find_pointwise(std::string_view);
template const Pointwise<uint8_t>* find_pointwise(std::string_view);
template const Pointwise<float>* find_printable(std::string_view);
template const Pointwise<double>* find_printable(std::string_view);

void register_pointwise(op::BackendKernels& kernels) {
  register_type<float>(kernels);
  register_type<double>(kernels);
  register_type<int32_t>(kernels);
  register_type<int64_t>(kernels);
  register_type<uint8_t>(kernels);
}

}  // namespace tandem::kernels::cpu
