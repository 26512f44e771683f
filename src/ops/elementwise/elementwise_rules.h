/// What the elementwise families share: shape rules, gradients brought back to an operand's shape,
/// and calls of ops by name.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/elementwise/number.h"
#include "ops/shaping/broadcast.h"

namespace tandem::ops {

/// Sets of dtypes that ops accept; they live for ever.
using DTypes = std::span<const DType>;

inline constexpr std::array kFloating = {DType::float32, DType::float64};
inline constexpr std::array kSigned = {DType::float32, DType::float64, DType::int32, DType::int64};
inline constexpr std::array kNumbers = {DType::float32, DType::float64, DType::int32, DType::int64,
                                        DType::uint8};
inline constexpr std::array kComparable = {DType::float32, DType::float64, DType::int32,
                                           DType::int64,   DType::uint8,   DType::boolean};
inline constexpr std::array kBoolean = {DType::boolean};

/// Throws InvalidArgument unless the dtype of the input is one of `accepted`.
void check_dtype(const op::Signature& signature, size_t input, DTypes accepted);

/// An op whose output has the type of its only input. Without a gradient function none passes.
op::OpDef unary_op(std::string name, DTypes accepted, op::GradientFn gradient = nullptr);

/// An op whose output has the dtype of its two inputs and the shape they broadcast to.
op::OpDef binary_op(std::string name, DTypes accepted, op::GradientFn gradient = nullptr);

/// The same op at the price of a function that takes tens of instructions.
op::OpDef costly(op::OpDef op);

/// The same op with bools as its result.
op::OpDef giving_bools(op::OpDef op);

/// The gradient of an input, computed if anybody needs it, summed to that input's shape.
template <class Gradient>
Tensor side(const op::Call& call, size_t input, const Gradient& gradient) {
  return call.needed[input] ? sum_to_shape(gradient(), call.inputs[input].shape()) : Tensor();
}

/// The text of a template argument.
template <size_t N>
struct TextLiteral {
  char text[N];
  constexpr TextLiteral(const char (&from)[N]) { std::copy_n(from, N, text); }
};

/// call<"exp">(x)
template <TextLiteral kName>
Tensor call(const Tensor& x) {
  static const op::OpDef& def = op::find_op(kName.text);
  return op::apply_one(def, {x});
}

/// call<"add">(a, b), where one may be a plain number.
template <TextLiteral kName>
Tensor call(const Tensor& a, const Tensor& b) {
  static const op::OpDef& def = op::find_op(kName.text);
  if (!is_number(a) && !is_number(b)) return op::apply_one(def, {a, b});
  const auto [x, y] = matched(kName.text, a, b);
  return op::apply_one(def, {x, y});
}

/// call_with<"elu">({{"alpha", alpha}}, x)
template <TextLiteral kName, class... Inputs>
Tensor call_with(op::Attrs&& attrs, const Inputs&... inputs) {
  static const op::OpDef& def = op::find_op(kName.text);
  return op::apply_one(def, {inputs...}, std::move(attrs));
}

}  // namespace tandem::ops
