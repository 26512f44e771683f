/// A function of single elements written down as C. A functor that is generic over vectors is
/// called once, with Texts in place of vectors; each of its steps then writes a statement that
/// names the step's value. So a function has one definition for CPUs, which run it, and for devices
/// whose compilers read it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::kernels::text {

class Listing;

/// A value: the name of a variable, or a number.
struct Text {
  Listing* listing = nullptr;
  std::string name{};
};

/// What tells a functor the type of its values, as a Highway tag does.
template <class T_>
struct TextTag {
  using T = T_;
  Listing* listing = nullptr;
};

/// Statements in order. Values are of the type C, which the reader defines.
class Listing {
 public:
  /// Both write a statement and return its value.
  Text value(const std::string& expression) { return add("C", expression); }
  Text truth(const std::string& expression) { return add("int", expression); }

  const std::string& str() const { return statements_; }

 private:
  Text add(const char* type, const std::string& expression);

  std::string statements_;
  int next_ = 0;
};

/// Parameters of a functor are not part of its text: a parameter is passed as this number, a NaN,
/// and written as the name q0, q1, ..
double parameter(int number);

Text number(Listing* listing, float value);
Text number(Listing* listing, double value);
Text call(std::string_view function, const Text& x);
Text call(std::string_view function, const Text& a, const Text& b);

// The operations of vectors that functors use, by Highway's names.
Text Add(const Text& a, const Text& b);
Text Sub(const Text& a, const Text& b);
Text Mul(const Text& a, const Text& b);
Text Div(const Text& a, const Text& b);
Text Max(const Text& a, const Text& b);
Text MulAdd(const Text& a, const Text& b, const Text& c);
Text NegMulAdd(const Text& a, const Text& b, const Text& c);
Text MulSub(const Text& a, const Text& b, const Text& c);
Text Neg(const Text& x);
Text Abs(const Text& x);
Text Sqrt(const Text& x);
Text Floor(const Text& x);
Text Ceil(const Text& x);
Text Round(const Text& x);
Text Gt(const Text& a, const Text& b);
Text Lt(const Text& a, const Text& b);
Text Ge(const Text& a, const Text& b);
Text Le(const Text& a, const Text& b);
Text Eq(const Text& a, const Text& b);
Text Or(const Text& a, const Text& b);
Text And(const Text& a, const Text& b);
Text IsNaN(const Text& x);
Text CopySignToAbs(const Text& size, const Text& sign);
Text IfThenElse(const Text& condition, const Text& a, const Text& b);
Text IfThenZeroElse(const Text& condition, const Text& b);
Text IfThenElseZero(const Text& condition, const Text& a);

template <class T, class Number>
Text Set(TextTag<T> d, Number value) {
  return number(d.listing, static_cast<T>(value));
}
template <class T>
Text Zero(TextTag<T> d) {
  return number(d.listing, T(0));
}
template <class T>
Text Asin(TextTag<T>, const Text& x) {
  return call("asin", x);
}
template <class T>
Text Acos(TextTag<T>, const Text& x) {
  return call("acos", x);
}
template <class T>
Text Atan(TextTag<T>, const Text& x) {
  return call("atan", x);
}
template <class T>
Text Tanh(TextTag<T>, const Text& x) {
  return call("tanh", x);
}
template <class T>
Text Expm1(TextTag<T>, const Text& x) {
  return call("expm1_of", x);
}
template <class T>
Text Log1p(TextTag<T>, const Text& x) {
  return call("log1p_of", x);
}

// The functions of kernels/cpu/elementwise/vector_math.h, which a compiler has its own of.
template <class T>
Text constant(TextTag<T> d, double of_float32, double of_float64) {
  const double value = sizeof(T) == 4 ? of_float32 : of_float64;
  if (value != value) return number(d.listing, value);  // A cast might not keep a parameter.
  return number(d.listing, static_cast<T>(value));
}
template <class T>
Text constant(TextTag<T> d, double value) {
  return constant(d, value, value);
}
template <class T>
Text exp_of(TextTag<T>, const Text& x) {
  return call("exp_of", x);
}
template <class T>
Text expm1_of(TextTag<T>, const Text& x) {
  return call("expm1_of", x);
}
template <class T>
Text log_of(TextTag<T>, const Text& x) {
  return call("log_of", x);
}
template <class T>
Text log1p_of(TextTag<T>, const Text& x) {
  return call("log1p_of", x);
}
template <class T>
Text sin_of(TextTag<T>, const Text& x) {
  return call("sin", x);
}
template <class T>
Text cos_of(TextTag<T>, const Text& x) {
  return call("cos", x);
}
template <class T>
Text tan_of(TextTag<T>, const Text& x) {
  return call("tan", x);
}
template <class T>
Text mod_of(TextTag<T>, const Text& a, const Text& b) {
  return call("floor_mod", a, b);
}
template <class T>
Text pow_of(TextTag<T>, const Text& a, const Text& b) {
  return call("power", a, b);
}

/// The rounding of a b makes exp(-a b) wrong by that much, relative to it.
template <class T>
Text exp_minus_product(TextTag<T> d, const Text& a, const Text& b) {
  const Text product = Mul(a, b);
  const Text rounding = MulSub(a, b, product);
  return Mul(exp_of(d, Neg(product)), Sub(number(d.listing, T(1)), rounding));
}

}  // namespace tandem::kernels::text
