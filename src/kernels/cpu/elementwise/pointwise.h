/// Functions of single elements, from one or two elements of a type to one of the same type, as
/// loops over contiguous runs. An elementwise kernel, alone or fused with others, is made of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/text.h"
#include "op/attrs.h"

namespace tandem::kernels::cpu {

/// Computes `count` elements. `out` may be one of the inputs. Any thread may call it.
template <class T>
using RunFn = void (*)(const T* const* inputs, T* out, int64_t count, const double* parameters);

using Parameters = std::array<double, 2>;

template <class T>
struct Pointwise {
  std::string_view name;  ///< The name of the op.
  int inputs;

  /// The functions, by the set of inputs that go on along the run, bit i for input i. The others
  /// stay: their one element serves the whole run.
  std::array<RunFn<T>, 4> runs;

  /// Attributes of the op, numbers, that the run functions take as parameters, in this order.
  std::array<std::string_view, 2> attributes{};

  /// Writes the function down. Its parameters are q<first_parameter> and the next. Null but in
  /// Table::printing.
  using PrintFn = text::Text (*)(text::Listing& listing, const text::Text* inputs,
                                 int first_parameter);
  PrintFn print = nullptr;

  Parameters parameters(const op::Attrs& attrs) const {
    Parameters values{};
    for (size_t i = 0; i < values.size(); ++i) {
      if (!attributes[i].empty()) values[i] = attrs.get<double>(attributes[i]);
    }
    return values;
  }
};

/// The function of an op for the best instruction set there is; nullptr if the op is not of this
/// kind. For float, double, int32_t, int64_t and uint8_t. A look-up: for prepare, not for run.
template <class T>
const Pointwise<T>* find_pointwise(std::string_view op);

/// A function that can be printed, of float or double.
template <class T>
const Pointwise<T>* find_printable(std::string_view op);

/// The families of functions are there for several instruction sets.
enum class Table {
  fastest,   ///< Those of the best one.
  printing,  ///< Those of one that every machine has; only these can be printed.
};

/// The functions of the families, which find_pointwise goes through.
template <class T>
using Functions = std::span<const Pointwise<T>>;
template <class T>
Functions<T> arithmetic_functions(Table table);
template <class T>
Functions<T> math_functions(Table table);
template <class T>
Functions<T> activation_functions(Table table);
template <class T>
Functions<T> selection_functions(Table table);
template <class T>
Functions<T> whole_number_functions();

/// A function of single elements and its derivative at once. `value` may be `x`.
template <class T>
struct SlopeFunction {
  std::string_view name;  ///< The name of the op.
  void (*run)(const T* x, T* value, T* slope, int64_t count);

  /// Writes the function down. Null but in Table::printing.
  void (*print)(text::Listing& listing, const text::Text& x, text::Text* value,
                text::Text* slope) = nullptr;
};

template <class T>
std::span<const SlopeFunction<T>> slope_functions(Table table);

/// A run of which all inputs stay, from the function for those that go on.
template <class T, RunFn<T> kRun>
void run_staying(const T* const* inputs, T* out, int64_t count, const double* parameters) {
  if (count == 0) return;
  kRun(inputs, out, 1, parameters);
  for (int64_t i = 1; i < count; ++i) out[i] = out[0];
}

}  // namespace tandem::kernels::cpu
