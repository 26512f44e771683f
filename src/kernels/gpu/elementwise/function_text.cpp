#include "kernels/gpu/elementwise/function_text.h"

#include <fmt/format.h>

#include <cassert>

#include "kernels/cpu/elementwise/pointwise.h"

namespace tandem::kernels::gpu {
namespace {

using text::Listing;
using text::Text;

template <class T>
Text print_function(const cpu::Pointwise<T>& function, const op::Attrs& attrs, Listing& listing,
                    std::span<const Text> inputs, std::vector<double>& parameters) {
  const Text result = function.print(listing, inputs.data(), static_cast<int>(parameters.size()));
  const cpu::Parameters values = function.parameters(attrs);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!function.attributes[i].empty()) parameters.push_back(values[i]);
  }
  return result;
}

template <class T>
PrintedExpression print_steps(const op::Expression& expression,
                              std::span<const std::string> inputs) {
  Listing listing;
  PrintedExpression printed;
  std::vector<Text> values;
  for (const std::string& input : inputs) values.push_back({&listing, input});
  for (const op::Expression::Call& step : expression.calls) {
    const cpu::Pointwise<T>* function = cpu::find_printable<T>(step.op->name);
    assert(function != nullptr);
    std::vector<Text> operands;
    for (const int operand : step.operands)
      operands.push_back(values[static_cast<size_t>(operand)]);
    values.push_back(print_function(*function, step.attrs, listing, operands, printed.parameters));
  }
  for (const int output : expression.outputs) {
    printed.results.push_back(values[static_cast<size_t>(expression.inputs + output)].name);
  }
  printed.statements = listing.str();
  return printed;
}

/// A call of a function of whole numbers; it takes parameters as doubles.
template <class T>
PrintedExpression print_whole(const Signature& s) {
  const cpu::Pointwise<T>& function = *cpu::find_pointwise<T>(s.op->name);
  PrintedExpression printed;
  std::string operands = "x0";
  for (size_t i = 1; i < s.inputs.size(); ++i) operands += fmt::format(", x{}", i);
  const cpu::Parameters values = function.parameters(s.attrs);
  for (size_t i = 0; i < values.size(); ++i) {
    if (function.attributes[i].empty()) continue;
    operands += fmt::format(", d{}", i);
    printed.parameters.push_back(values[i]);
  }
  printed.results.push_back(fmt::format("{}_of({})", s.op->name, operands));
  return printed;
}

}  // namespace

const std::string_view kMathFunctions = R"(
#ifdef SERIAL
/* As in kernels/cpu/elementwise/vector_math.h and Highway, so that loops over them become vectors.
   PoCL's own functions take 2 to 30 times as long. */
FN float exp_minus_one_near_zero(float r) {
  const float squares = r * r;
  const float high = fma(0.000198527618f, r, 0.00139304355f);
  const float middle = fma(0.00833336078f, r, 0.0416664854f);
  const float low = fma(0.166666672f, r, 0.5f);
  return fma(fma(high, squares * squares, fma(middle, squares, low)), squares, r);
}
FN float exp_of(float x) {
  const float shifted = fma(x, 1.44269504f, 12582912.0f);
  const float n = shifted - 12582912.0f;
  const float r = fma(-n, 1.42860677e-6f, fma(-n, 0.693145752f, x));
  const float mantissa = exp_minus_one_near_zero(r) + 1.0f;
  const float value = FLOAT_OF_BITS(BITS_OF_FLOAT(mantissa) + (BITS_OF_FLOAT(shifted) << 23));
  const float large = x > 88.7228317f ? INFINITY : value;
  const float small = x < -87.3365448f ? 0.0f : large;
  return x != x ? x : small;
}
FN float expm1_of(float x) {
  const float far = exp_of(x) - 1.0f;
  return fabs(x) < 0.346573591f ? exp_minus_one_near_zero(x) : far;
}
/* x is 2^n y with y next to 1; the first term of the series is 2 (y - 1) / (y + 1). */
FN float log_of(float x) {
  const u32 bits = BITS_OF_FLOAT(x) + (0x3f800000u - 0x3f3504f3u);
  const float n = (float)((i32)(bits >> 23) - 127);
  const float y = FLOAT_OF_BITS((bits & 0x7fffffu) + 0x3f3504f3u);
  const float beyond = y - 1.0f;
  const float z = beyond / (y + 1.0f);
  const float z2 = z * z;
  const float z4 = z2 * z2;
  const float odd = fma(0.242790788f, z4, 0.400009722f) * z4;
  const float rest = fma(fma(0.284987867f, z4, 0.666666627f), z2, odd);
  const float near = fma(z, beyond - rest, -(n * 9.05800061e-6f)) - beyond;
  const float value = fma(n, 0.693138123f, -near);
  const float special = x < 0.0f ? NAN : x < 1.17549435e-38f ? -INFINITY : x;
  return x >= 1.17549435e-38f && x < INFINITY ? value : special;
}
FN float log1p_of(float x) {
  const float y = x + 1.0f;
  const float value = log_of(y) * (x / (y - 1.0f));
  return y == 1.0f || x == INFINITY ? x : value;
}
#else
FN float exp_of(float x) { return exp(x); }
FN float expm1_of(float x) { return expm1(x); }
FN float log_of(float x) { return log(x); }
FN float log1p_of(float x) { return fabs(x) < 1e-8f ? x : log1p(x); }
#endif
FN double exp_of(double x) { return exp(x); }
FN double expm1_of(double x) { return expm1(x); }
FN double log_of(double x) { return log(x); }
/* Compilers lose the smallest numbers. */
FN double log1p_of(double x) { return fabs(x) < 1e-17 ? x : log1p(x); }
/* What is left of a division that is rounded down. */
FN float floor_mod(float x, float y) {
  const float rest = fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
FN double floor_mod(double x, double y) {
  const double rest = fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
FN float power(float x, float y) { return y == 2 ? x * x : pow(x, y); }
FN double power(double x, double y) { return y == 2 ? x * x : pow(x, y); }
)";

const std::string_view kWholeNumberFunctions = R"(
/* Unsigned numbers wrap round, U is T without its sign. */
#define WRAPPING_FUNCTIONS(T, U) \
  FN T add_of(T a, T b) { return (T)((U)a + (U)b); } \
  FN T sub_of(T a, T b) { return (T)((U)a - (U)b); } \
  FN T mul_of(T a, T b) { return (T)((U)a * (U)b); } \
  FN T maximum_of(T a, T b) { return a < b ? b : a; } \
  FN T minimum_of(T a, T b) { return b < a ? b : a; } \
  FN T squared_difference_of(T a, T b) { return mul_of(sub_of(a, b), sub_of(a, b)); }
#define SIGNED_FUNCTIONS(T, U, LEAST, MOST) \
  /* Dividing the smallest number by -1 would trap. */ \
  FN T floor_div_of(T a, T b) { \
    if (b == 0) return 0; \
    if (b == -1) return sub_of((T)0, a); \
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); \
  } \
  FN T mod_of(T a, T b) { return b == 0 ? (T)0 : sub_of(a, mul_of(floor_div_of(a, b), b)); } \
  FN T pow_of(T a, T b) { \
    if (b < 0) return a == 1 ? (T)1 : a == -1 ? (T)(b % 2 == 0 ? 1 : -1) : (T)0; \
    T result = 1; \
    for (; b > 0; b /= 2) { \
      if (b % 2 != 0) result = mul_of(result, a); \
      a = mul_of(a, a); \
    } \
    return result; \
  } \
  FN T neg_of(T x) { return sub_of((T)0, x); } \
  FN T abs_of(T x) { return x < 0 ? sub_of((T)0, x) : x; } \
  FN T sign_of(T x) { return (x > 0) - (x < 0); } \
  FN T square_of(T x) { return mul_of(x, x); } \
  FN T limit_of(double limit, T type) { \
    return limit <= (double)LEAST ? LEAST : limit >= (double)MOST ? MOST : (T)limit; \
  } \
  FN T clip_of(T x, double low, double high) { \
    return minimum_of(maximum_of(x, limit_of(ceil(low), x)), limit_of(floor(high), x)); \
  }
WRAPPING_FUNCTIONS(i32, u32)
WRAPPING_FUNCTIONS(i64, u64)
WRAPPING_FUNCTIONS(u8, u8)
SIGNED_FUNCTIONS(i32, u32, (-2147483647 - 1), 2147483647)
SIGNED_FUNCTIONS(i64, u64, (-(i64)0x7fffffffffffffff - 1), (i64)0x7fffffffffffffff)
FN u8 floor_div_of(u8 a, u8 b) { return b == 0 ? (u8)0 : (u8)(a / b); }
FN u8 mod_of(u8 a, u8 b) { return b == 0 ? (u8)0 : (u8)(a % b); }
)";

PrintedExpression print(const op::Expression& expression, DType dtype,
                        std::span<const std::string> inputs) {
  return dtype == DType::float32 ? print_steps<float>(expression, inputs)
                                 : print_steps<double>(expression, inputs);
}

std::vector<std::string> element_names(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("x{}", i));
  return names;
}

PrintedExpression print(const Signature& s) {
  switch (s.outputs[0].dtype) {
    case DType::int32:
      return print_whole<int32_t>(s);
    case DType::int64:
      return print_whole<int64_t>(s);
    case DType::uint8:
      return print_whole<uint8_t>(s);
    default:
      break;
  }
  op::Expression expression;
  expression.inputs = static_cast<int>(s.inputs.size());
  op::Expression::Call step{s.op, {}, s.attrs};
  for (int i = 0; i < expression.inputs; ++i) step.operands.push_back(i);
  expression.calls.push_back(std::move(step));
  expression.outputs = {0};
  return print(expression, s.outputs[0].dtype, element_names(s.inputs.size()));
}

}  // namespace tandem::kernels::gpu
