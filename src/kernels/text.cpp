#include "kernels/text.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace tandem::kernels::text {
namespace {

// Parameter k is a quiet NaN with these bits and k.
constexpr uint64_t kParameter = 0x7ff8'5041'5200'0000;
constexpr uint64_t kNumber = 0xffff;

Text infix(const Text& a, const char* sign, const Text& b) {
  return a.listing->value(fmt::format("{} {} {}", a.name, sign, b.name));
}

Text comparison(const Text& a, const char* sign, const Text& b) {
  return a.listing->truth(fmt::format("{} {} {}", a.name, sign, b.name));
}

template <class T>
std::string digits(T value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value < 0 ? "(-INFINITY)" : "INFINITY";
  const std::string text =
      sizeof(T) == 4 ? fmt::format("{:#.9g}f", value) : fmt::format("{:#.17g}", value);
  return std::signbit(value) ? "(" + text + ")" : text;
}

}  // namespace

Text Listing::add(const char* type, const std::string& expression) {
  const std::string name = fmt::format("t{}", next_++);
  statements_ += fmt::format("const {} {} = {};\n", type, name, expression);
  return {this, name};
}

double parameter(int number) {
  return std::bit_cast<double>(kParameter | static_cast<uint64_t>(number));
}

Text number(Listing* listing, float value) { return {listing, digits(value)}; }

Text number(Listing* listing, double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  if ((bits & ~kNumber) == kParameter) return {listing, fmt::format("q{}", bits & kNumber)};
  return {listing, digits(value)};
}

Text call(std::string_view function, const Text& x) {
  return x.listing->value(fmt::format("{}({})", function, x.name));
}
Text call(std::string_view function, const Text& a, const Text& b) {
  return a.listing->value(fmt::format("{}({}, {})", function, a.name, b.name));
}

Text Add(const Text& a, const Text& b) { return infix(a, "+", b); }
Text Sub(const Text& a, const Text& b) { return infix(a, "-", b); }
Text Mul(const Text& a, const Text& b) { return infix(a, "*", b); }
Text Div(const Text& a, const Text& b) { return infix(a, "/", b); }
Text Max(const Text& a, const Text& b) {
  return a.listing->value(fmt::format("{0} > {1} ? {0} : {1}", a.name, b.name));
}
Text MulAdd(const Text& a, const Text& b, const Text& c) {
  return a.listing->value(fmt::format("fma({}, {}, {})", a.name, b.name, c.name));
}
Text NegMulAdd(const Text& a, const Text& b, const Text& c) {
  return a.listing->value(fmt::format("fma(-{}, {}, {})", a.name, b.name, c.name));
}
Text MulSub(const Text& a, const Text& b, const Text& c) {
  return a.listing->value(fmt::format("fma({}, {}, -{})", a.name, b.name, c.name));
}
Text Neg(const Text& x) { return x.listing->value("-" + x.name); }
Text Abs(const Text& x) { return call("fabs", x); }
Text Sqrt(const Text& x) { return call("sqrt", x); }
Text Floor(const Text& x) { return call("floor", x); }
Text Ceil(const Text& x) { return call("ceil", x); }
Text Round(const Text& x) { return call("rint", x); }
Text Gt(const Text& a, const Text& b) { return comparison(a, ">", b); }
Text Lt(const Text& a, const Text& b) { return comparison(a, "<", b); }
Text Ge(const Text& a, const Text& b) { return comparison(a, ">=", b); }
Text Le(const Text& a, const Text& b) { return comparison(a, "<=", b); }
Text Eq(const Text& a, const Text& b) { return comparison(a, "==", b); }
Text Or(const Text& a, const Text& b) { return comparison(a, "||", b); }
Text And(const Text& a, const Text& b) { return comparison(a, "&&", b); }
Text IsNaN(const Text& x) { return comparison(x, "!=", x); }
Text CopySignToAbs(const Text& size, const Text& sign) { return call("copysign", size, sign); }
Text IfThenElse(const Text& condition, const Text& a, const Text& b) {
  return condition.listing->value(fmt::format("{} ? {} : {}", condition.name, a.name, b.name));
}
Text IfThenZeroElse(const Text& condition, const Text& b) {
  return condition.listing->value(fmt::format("{} ? (C)0 : {}", condition.name, b.name));
}
Text IfThenElseZero(const Text& condition, const Text& a) {
  return condition.listing->value(fmt::format("{} ? {} : (C)0", condition.name, a.name));
}

}  // namespace tandem::kernels::text
