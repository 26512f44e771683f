// The steps of instructions, by what they compute. Each is a function for one type, chosen when the
// text is read.
#include "ptx_operations.h"

#include <cfenv>
#include <unordered_map>

#include "ptx_values.h"

namespace tandem::doubles::ptx {
namespace {

// ---- Steps for one, two and three operands ----

template <class T, class F>
const PtxInstruction* unary(const PtxInstruction* i, uint64_t* r, Thread&) {
  write<T>(r[i->d], static_cast<Value<T>>(F{}(read<T>(r[i->a]))));
  return i + 1;
}

template <class T, class F>
const PtxInstruction* binary(const PtxInstruction* i, uint64_t* r, Thread&) {
  write<T>(r[i->d], static_cast<Value<T>>(F{}(read<T>(r[i->a]), read<T>(r[i->b]))));
  return i + 1;
}

template <class T, class F>
const PtxInstruction* ternary(const PtxInstruction* i, uint64_t* r, Thread&) {
  write<T>(r[i->d],
           static_cast<Value<T>>(F{}(read<T>(r[i->a]), read<T>(r[i->b]), read<T>(r[i->c]))));
  return i + 1;
}

/// Shifts: the second operand is a count of 32 bits.
template <class T, class F>
const PtxInstruction* shift(const PtxInstruction* i, uint64_t* r, Thread&) {
  write<T>(r[i->d], static_cast<Value<T>>(F{}(read<T>(r[i->a]), read<uint32_t>(r[i->b]))));
  return i + 1;
}

/// The result is twice as wide as the first two operands; so is the third.
template <class T, class Wide, class F>
const PtxInstruction* widening(const PtxInstruction* i, uint64_t* r, Thread&) {
  write<Wide>(r[i->d], F{}(static_cast<Wide>(read<T>(r[i->a])), static_cast<Wide>(read<T>(r[i->b])),
                           read<Wide>(r[i->c])));
  return i + 1;
}

/// The result is a count of 32 bits.
template <class T, class F>
const PtxInstruction* counting(const PtxInstruction* i, uint64_t* r, Thread&) {
  r[i->d] = static_cast<uint32_t>(F{}(read<T>(r[i->a])));
  return i + 1;
}

/// Another step with another rounding.
template <int kRounding>
const PtxInstruction* rounded(const PtxInstruction* i, uint64_t* r, Thread& thread) {
  const auto step = reinterpret_cast<Step>(i->number);
  std::fesetround(kRounding);
  const PtxInstruction* const next = step(i, r, thread);
  std::fesetround(FE_TONEAREST);
  return next;
}

// ---- Choosing by type ----

template <class Choice>
Step for_unsigned(Type type, const Choice& choice) {
  switch (type) {
    case Type::b16:
    case Type::u16:
    case Type::s16:
      return choice.template operator()<uint16_t>();
    case Type::b32:
    case Type::u32:
    case Type::s32:
      return choice.template operator()<uint32_t>();
    case Type::b64:
    case Type::u64:
    case Type::s64:
      return choice.template operator()<uint64_t>();
    default:
      return nullptr;
  }
}

template <class Choice>
Step for_integer(Type type, const Choice& choice) {
  switch (type) {
    case Type::s16:
      return choice.template operator()<int16_t>();
    case Type::s32:
      return choice.template operator()<int32_t>();
    case Type::s64:
      return choice.template operator()<int64_t>();
    default:
      return for_unsigned(type, choice);
  }
}

template <class Choice>
Step for_float(const Opcode& opcode, const Choice& choice) {
  switch (opcode.type) {
    case Type::f32:
      return opcode.has("ftz") ? choice.template operator()<Flushed>()
                               : choice.template operator()<float>();
    case Type::f64:
      return choice.template operator()<double>();
    default:
      return nullptr;
  }
}

// ---- What is computed ----

/// Whole numbers wrap around; their low bits do not depend on the sign.
struct Plus {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t(a) + uint64_t(b));
    else
      return a + b;
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t(a) - uint64_t(b));
    else
      return a - b;
  }
};
struct Times {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t(a) * uint64_t(b));
    else
      return a * b;
  }
};
struct MultiplyHigh {
  template <class T>
  T operator()(T a, T b) const {
    using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (8 * sizeof(T)));
  }
};
struct MultiplyAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return static_cast<T>(uint64_t(a) * uint64_t(b) + uint64_t(c));
  }
};
struct MultiplyHighAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Plus{}(MultiplyHigh{}(a, b), c);
  }
};
struct WideProduct {
  template <class T>
  T operator()(T a, T b, T) const {
    return Times{}(a, b);
  }
};
struct FusedMultiplyAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
/// By zero is whatever the device likes: all bits set, as NVIDIA's do.
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return static_cast<T>(-1);
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Subtract{}(T{0}, a);
    }
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>)
      return Subtract{}(T{0}, a);
    else
      return -a;
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>)
      return a < T{0} ? Subtract{}(T{0}, a) : a;
    else
      return std::fabs(a);
  }
};
/// For floats the other number where one is NaN; -0 is less than 0.
struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a) return b;
      if (b != b) return a;
      if (a == b) return std::signbit(a) ? a : b;
    }
    return a < b ? a : b;
  }
};
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a) return b;
      if (b != b) return a;
      if (a == b) return std::signbit(a) ? b : a;
    }
    return a > b ? a : b;
  }
};
/// NaN where one is NaN.
template <class F>
struct Strict {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : F{}(a, b);
  }
};
struct And {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_same_v<T, bool>)
      return !a;
    else
      return static_cast<T>(~a);
  }
};
struct IsZero {
  template <class T>
  T operator()(T a) const {
    return a == 0 ? 1 : 0;
  }
};
struct ShiftLeft {
  template <class T>
  T operator()(T a, uint32_t n) const {
    return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(uint64_t(a) << n);
  }
};
/// Signed numbers fill with their sign.
struct ShiftRight {
  template <class T>
  T operator()(T a, uint32_t n) const {
    constexpr uint32_t kBits = 8 * sizeof(T);
    if (n >= kBits) return std::is_signed_v<T> ? static_cast<T>(a >> (kBits - 1)) : T{0};
    return static_cast<T>(a >> n);
  }
};
struct CountZeros {
  template <class T>
  int operator()(T a) const {
    return std::countl_zero(a);
  }
};
struct CountOnes {
  template <class T>
  int operator()(T a) const {
    return std::popcount(a);
  }
};
/// The place of the highest bit that differs from the sign.
struct FindBit {
  template <class T>
  int operator()(T a) const {
    using U = std::make_unsigned_t<T>;
    const auto bits = static_cast<U>(a < T{0} ? ~a : a);
    return static_cast<int>(8 * sizeof(T)) - 1 - std::countl_zero(bits);
  }
};
struct ReverseBits {
  template <class T>
  T operator()(T a) const {
    T reversed = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i)
      reversed = static_cast<T>(reversed << 1 | (a >> i & 1));
    return reversed;
  }
};
struct CopySign {  // The sign of the first.
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};
struct SquareRoot {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return 1 / a;
  }
};

/// What devices approximate is computed in float64 here.
template <double (*F)(double)>
struct Approximated {
  float operator()(float a) const { return static_cast<float>(F(a)); }
};
double reciprocal_root(double a) { return 1 / std::sqrt(a); }
double exp2_of(double a) { return std::exp2(a); }
double log2_of(double a) { return std::log2(a); }
double sine(double a) { return std::sin(a); }
double cosine(double a) { return std::cos(a); }
double tangent_of(double a) { return std::tanh(a); }

/// Approximations in float64 that flush (.approx.ftz) look at, and make, the upper half only.
template <class F>
struct UpperHalf {
  double operator()(double a) const {
    constexpr uint64_t kUpper = 0xffffffff00000000;
    const double input = std::bit_cast<double>(std::bit_cast<uint64_t>(a) & kUpper);
    const double result = F{}(
        std::fabs(input) < std::numeric_limits<double>::min() ? std::copysign(0.0, input) : input);
    return std::bit_cast<double>(std::bit_cast<uint64_t>(result) & kUpper);
  }
};
struct ReciprocalRoot {
  double operator()(double a) const { return reciprocal_root(a); }
};

// ---- Steps of their own ----

/// Bits b and up of a, as many as c says.
template <class T>
const PtxInstruction* bit_field_extract(const PtxInstruction* i, uint64_t* r, Thread&) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  const T value = read<T>(r[i->a]);
  const uint32_t position = r[i->b] & 0xff;
  const uint32_t length = r[i->c] & 0xff;
  T result = 0;
  if (length > 0) {
    const uint32_t last = std::min(position + length - 1, kBits - 1);
    const bool negative =
        std::is_signed_v<T> && (static_cast<std::make_unsigned_t<T>>(value) >> last & 1) != 0;
    result = ShiftRight{}(value, position);
    if (length < kBits) {
      const auto mask = static_cast<T>(ShiftLeft{}(std::make_unsigned_t<T>(1), length) - 1);
      result = static_cast<T>(result & mask);
      if (negative) result = static_cast<T>(result | ~mask);
    }
  }
  write<T>(r[i->d], result);
  return i + 1;
}

/// b with as many bits of a as e says put at c.
template <class T>
const PtxInstruction* bit_field_insert(const PtxInstruction* i, uint64_t* r, Thread&) {
  const uint32_t position = r[i->c] & 0xff;
  const uint32_t length = r[i->e] & 0xff;
  const T mask = ShiftLeft{}(static_cast<T>(ShiftLeft{}(T{1}, length) - 1), position);
  const T inserted = ShiftLeft{}(read<T>(r[i->a]), position);
  write<T>(r[i->d], static_cast<T>((read<T>(r[i->b]) & ~mask) | (inserted & mask)));
  return i + 1;
}

/// Bytes of {b, a}, chosen by four digits of c; the digit's upper bit repeats the byte's sign.
const PtxInstruction* permute_bytes(const PtxInstruction* i, uint64_t* r, Thread&) {
  const uint64_t bytes = read<uint32_t>(r[i->a]) | uint64_t{read<uint32_t>(r[i->b])} << 32;
  uint32_t result = 0;
  for (int k = 0; k < 4; ++k) {
    const uint64_t digit = r[i->c] >> (4 * k) & 0xf;
    uint32_t byte = bytes >> (8 * (digit & 7)) & 0xff;
    if ((digit & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * k);
  }
  r[i->d] = result;
  return i + 1;
}

/// Any function of three bits, given by its table in e.
const PtxInstruction* logic_of_three(const PtxInstruction* i, uint64_t* r, Thread&) {
  uint32_t result = 0;
  for (uint32_t k = 0; k < 8; ++k) {
    if ((r[i->e] >> k & 1) == 0) continue;
    const auto a = read<uint32_t>(r[i->a]);
    const auto b = read<uint32_t>(r[i->b]);
    const auto c = read<uint32_t>(r[i->c]);
    result |= ((k & 4) != 0 ? a : ~a) & ((k & 2) != 0 ? b : ~b) & ((k & 1) != 0 ? c : ~c);
  }
  r[i->d] = result;
  return i + 1;
}

/// {b, a} shifted by c; the number has 1 for right and 2 for counts that wrap around.
const PtxInstruction* funnel_shift(const PtxInstruction* i, uint64_t* r, Thread&) {
  const uint64_t both = read<uint32_t>(r[i->a]) | uint64_t{read<uint32_t>(r[i->b])} << 32;
  const auto count = read<uint32_t>(r[i->c]);
  const uint32_t n = (i->number & 2) != 0 ? count & 31 : std::min<uint32_t>(count, 32);
  r[i->d] = static_cast<uint32_t>((i->number & 1) != 0 ? both >> n : both << n >> 32);
  return i + 1;
}

/// Sums with carry: the number has 1 where the carry comes in and 2 where it goes out.
template <class T, class F>
const PtxInstruction* carrying(const PtxInstruction* i, uint64_t* r, Thread&) {
  const unsigned __int128 carry = (i->number & 1) != 0 ? r[kCarry] : 0;
  const unsigned __int128 sum = F{}(read<T>(r[i->a]), read<T>(r[i->b]), read<T>(r[i->c]), carry);
  r[i->d] = static_cast<T>(sum);
  if ((i->number & 2) != 0) r[kCarry] = static_cast<uint64_t>(sum >> (8 * sizeof(T)) & 1);
  return i + 1;
}
using Wide = unsigned __int128;
struct AddCarry {
  template <class T>
  Wide operator()(T a, T b, T, Wide carry) const {
    return Wide{a} + b + carry;
  }
};
struct SubtractCarry {
  template <class T>
  Wide operator()(T a, T b, T, Wide carry) const {
    return Wide{a} - b - carry;
  }
};
struct LowAddCarry {
  template <class T>
  Wide operator()(T a, T b, T c, Wide carry) const {
    return static_cast<T>(Wide{a} * b) + Wide{c} + carry;
  }
};
struct HighAddCarry {
  template <class T>
  Wide operator()(T a, T b, T c, Wide carry) const {
    return static_cast<T>((Wide{a} * b) >> (8 * sizeof(T))) + Wide{c} + carry;
  }
};

const PtxInstruction* select(const PtxInstruction* i, uint64_t* r, Thread&) {
  r[i->d] = (r[i->c] & 1) != 0 ? r[i->a] : r[i->b];
  return i + 1;
}

enum class TestOf { finite, infinite, number, notanumber, normal, subnormal };
template <class T>
const PtxInstruction* test(const PtxInstruction* i, uint64_t* r, Thread&) {
  const Value<T> a = read<T>(r[i->a]);
  const auto is = [&] {
    switch (static_cast<TestOf>(i->number)) {
      case TestOf::finite:
        return std::isfinite(a);
      case TestOf::infinite:
        return std::isinf(a);
      case TestOf::number:
        return !std::isnan(a);
      case TestOf::notanumber:
        return std::isnan(a);
      case TestOf::normal:
        return std::isnormal(a);
      case TestOf::subnormal:
        return std::fpclassify(a) == FP_SUBNORMAL;
    }
    return false;
  };
  r[i->d] = is() ? 1 : 0;
  return i + 1;
}

// ---- Conversions ----

/// How a conversion rounds to whole numbers, and whether its result is kept within bounds.
enum Conversion : uint64_t {
  kNearest = 0,
  kToZero = 1,
  kDown = 2,
  kUp = 3,
  kNone = 4,
  kSaturate = 8
};

template <class T>
T round_to_whole(T x, uint64_t how) {
  switch (how & 7) {
    case kNearest:
      return std::nearbyint(x);
    case kToZero:
      return std::trunc(x);
    case kDown:
      return std::floor(x);
    case kUp:
      return std::ceil(x);
    default:
      return x;
  }
}

/// Out of bounds is the bound; NaN is 0, and the lowest number where one of the two is 64 bits
/// wide.
template <class To, class From>
To whole_of(From x, bool is_wide) {
  if (x != x) return is_wide ? static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1)) : To{0};
  const auto least = static_cast<double>(std::numeric_limits<To>::min());
  const double above = std::ldexp(1.0, std::numeric_limits<To>::digits);
  if (static_cast<double>(x) <= least) return std::numeric_limits<To>::min();
  if (static_cast<double>(x) >= above) return std::numeric_limits<To>::max();
  return static_cast<To>(x);
}

template <class To, class From>
const PtxInstruction* convert(const PtxInstruction* i, uint64_t* r, Thread&) {
  using T = Value<To>;
  using F = Value<From>;
  const F x = read<From>(r[i->a]);
  T result{};
  if constexpr (std::is_floating_point_v<F> && std::is_integral_v<T>) {
    constexpr bool kIsWide = std::is_same_v<F, double> || sizeof(T) == 8;
    result = whole_of<T>(round_to_whole(x, i->number), kIsWide);
  } else if constexpr (std::is_floating_point_v<F>) {
    result = static_cast<T>(round_to_whole(x, i->number));
  } else if constexpr (std::is_integral_v<T>) {
    if ((i->number & kSaturate) == 0) {
      result = static_cast<T>(x);
    } else {
      using Limits = std::numeric_limits<T>;
      result = std::cmp_less(x, Limits::min())      ? Limits::min()
               : std::cmp_greater(x, Limits::max()) ? Limits::max()
                                                    : static_cast<T>(x);
    }
  } else {
    result = static_cast<T>(x);
  }
  if constexpr (std::is_floating_point_v<T>) {
    if ((i->number & kSaturate) != 0) result = !(result > 0) ? T{0} : std::min(result, T{1});
  }
  write<To>(r[i->d], result);
  return i + 1;
}

template <class Choice>
Step for_any(Type type, bool flushed, const Choice& choice) {
  switch (type) {
    case Type::b8:
    case Type::u8:
      return choice.template operator()<uint8_t>();
    case Type::s8:
      return choice.template operator()<int8_t>();
    case Type::f16:
      return choice.template operator()<Half>();
    case Type::bf16:
      return choice.template operator()<Bfloat>();
    case Type::f32:
      return flushed ? choice.template operator()<Flushed>() : choice.template operator()<float>();
    case Type::f64:
      return choice.template operator()<double>();
    default:
      return for_integer(type, choice);
  }
}

/// The rounding that an opcode names, as std::fesetround has it.
int rounding_of(const Opcode& opcode) {
  if (opcode.has("rz")) return FE_TOWARDZERO;
  if (opcode.has("rm")) return FE_DOWNWARD;
  if (opcode.has("rp")) return FE_UPWARD;
  return FE_TONEAREST;
}

Step with_rounding(int rounding, Step step, PtxInstruction& instruction) {
  if (rounding == FE_TONEAREST || step == nullptr) return step;
  instruction.number = reinterpret_cast<uint64_t>(step);
  if (rounding == FE_TOWARDZERO) return &rounded<FE_TOWARDZERO>;
  return rounding == FE_DOWNWARD ? &rounded<FE_DOWNWARD> : &rounded<FE_UPWARD>;
}

bool is_float(Type type) { return type >= Type::f16; }

/// A conversion that rounds a float64 to a float32, or a whole number to a float, upwards. Its
/// number is its own, so the rounding is in another slot.
template <class To, class From, int kRounding>
const PtxInstruction* convert_rounded(const PtxInstruction* i, uint64_t* r, Thread& thread) {
  std::fesetround(kRounding);
  const auto step = static_cast<Step volatile>(&convert<To, From>);
  const PtxInstruction* const next = step(i, r, thread);
  std::fesetround(FE_TONEAREST);
  return next;
}

Step convert_step(const Opcode& opcode, PtxInstruction& instruction) {
  const bool to_whole =
      opcode.has("rni") || opcode.has("rzi") || opcode.has("rmi") || opcode.has("rpi");
  instruction.number = opcode.has("rni")   ? kNearest
                       : opcode.has("rzi") ? kToZero
                       : opcode.has("rmi") ? kDown
                       : opcode.has("rpi") ? kUp
                                           : kNone;
  if (!to_whole && is_float(opcode.from) && !is_float(opcode.type)) instruction.number = kToZero;
  if (opcode.has("sat")) instruction.number |= kSaturate;
  const bool flushed = opcode.has("ftz");
  const int rounding = rounding_of(opcode);
  return for_any(opcode.type, flushed, [&]<class To>() -> Step {
    return for_any(opcode.from, flushed, [&]<class From>() -> Step {
      switch (rounding) {
        case FE_TOWARDZERO:
          return &convert_rounded<To, From, FE_TOWARDZERO>;
        case FE_DOWNWARD:
          return &convert_rounded<To, From, FE_DOWNWARD>;
        case FE_UPWARD:
          return &convert_rounded<To, From, FE_UPWARD>;
        default:
          return &convert<To, From>;
      }
    });
  });
}

// ---- Opcodes ----

using Choose = Step (*)(const Opcode&, PtxInstruction&);

/// An operation of whole numbers and floats, in which floats round as the opcode says.
template <class F>
Step arithmetic(const Opcode& opcode, PtxInstruction& instruction) {
  if (!is_float(opcode.type)) {
    return for_integer(opcode.type, []<class T>() -> Step { return &binary<T, F>; });
  }
  const Step step = for_float(opcode, []<class T>() -> Step { return &binary<T, F>; });
  return with_rounding(rounding_of(opcode), step, instruction);
}

template <class F>
Step unary_of_any(const Opcode& opcode, PtxInstruction&) {
  if (is_float(opcode.type))
    return for_float(opcode, []<class T>() -> Step { return &unary<T, F>; });
  return for_integer(opcode.type, []<class T>() -> Step { return &unary<T, F>; });
}

template <class F>
Step extreme(const Opcode& opcode, PtxInstruction&) {
  if (!is_float(opcode.type)) {
    return for_integer(opcode.type, []<class T>() -> Step { return &binary<T, F>; });
  }
  if (opcode.has("NaN")) {
    return for_float(opcode, []<class T>() -> Step { return &binary<T, Strict<F>>; });
  }
  return for_float(opcode, []<class T>() -> Step { return &binary<T, F>; });
}

template <class F>
Step bitwise(const Opcode& opcode, PtxInstruction&) {
  if (opcode.type == Type::pred) return &binary<bool, F>;
  return for_unsigned(opcode.type, []<class T>() -> Step { return &binary<T, F>; });
}

template <class F>
Step of_float32(const Opcode& opcode, PtxInstruction&) {
  if (opcode.type != Type::f32) return nullptr;
  return opcode.has("ftz") ? &unary<Flushed, F> : &unary<float, F>;
}

/// Exact, but for the approximation of float64.
template <class Exact, class Upper>
Step root_or_reciprocal(const Opcode& opcode, PtxInstruction& instruction) {
  if (opcode.type == Type::f64 && opcode.has("ftz")) return &unary<double, UpperHalf<Upper>>;
  const Step step = for_float(opcode, []<class T>() -> Step { return &unary<T, Exact>; });
  return with_rounding(rounding_of(opcode), step, instruction);
}

uint64_t carry_flags(const Opcode& opcode) {
  return (opcode.name.ends_with('c') ? 1 : 0) | (opcode.has("cc") ? 2 : 0);
}

template <class F>
Step with_carry(const Opcode& opcode, PtxInstruction& instruction) {
  instruction.number = carry_flags(opcode);
  return for_unsigned(opcode.type, []<class T>() -> Step { return &carrying<T, F>; });
}

template <class F, class Carry>
Step sum(const Opcode& opcode, PtxInstruction& instruction) {
  return carry_flags(opcode) != 0 ? with_carry<Carry>(opcode, instruction)
                                  : arithmetic<F>(opcode, instruction);
}

template <class F>
Step wide(Type type) {
  switch (type) {
    case Type::u16:
      return &widening<uint16_t, uint32_t, F>;
    case Type::s16:
      return &widening<int16_t, int32_t, F>;
    case Type::u32:
      return &widening<uint32_t, uint64_t, F>;
    case Type::s32:
      return &widening<int32_t, int64_t, F>;
    default:
      return nullptr;
  }
}

Step multiply_step(const Opcode& opcode, PtxInstruction& instruction) {
  if (opcode.has("wide")) return wide<WideProduct>(opcode.type);
  if (opcode.has("hi")) {
    return for_integer(opcode.type, []<class T>() -> Step { return &binary<T, MultiplyHigh>; });
  }
  return arithmetic<Times>(opcode, instruction);
}

Step multiply_add_step(const Opcode& opcode, PtxInstruction& instruction) {
  if (is_float(opcode.type)) {
    const Step step =
        for_float(opcode, []<class T>() -> Step { return &ternary<T, FusedMultiplyAdd>; });
    return with_rounding(rounding_of(opcode), step, instruction);
  }
  if (opcode.has("wide")) return wide<MultiplyAdd>(opcode.type);
  if (carry_flags(opcode) != 0) {
    return opcode.has("hi") ? with_carry<HighAddCarry>(opcode, instruction)
                            : with_carry<LowAddCarry>(opcode, instruction);
  }
  if (opcode.has("hi")) {
    return for_integer(opcode.type, []<class T>() -> Step { return &ternary<T, MultiplyHighAdd>; });
  }
  return for_integer(opcode.type, []<class T>() -> Step { return &ternary<T, MultiplyAdd>; });
}

Step test_step(const Opcode& opcode, PtxInstruction& instruction) {
  constexpr const char* kTests[] = {"finite",     "infinite", "number",
                                    "notanumber", "normal",   "subnormal"};
  for (uint64_t i = 0; i < std::size(kTests); ++i) {
    if (opcode.has(kTests[i])) instruction.number = i;
  }
  return opcode.type == Type::f32 ? &test<float> : &test<double>;
}

const std::unordered_map<std::string, Choose>& choices() {
  static const auto* const table = new std::unordered_map<std::string, Choose>{
      {"add", sum<Plus, AddCarry>},
      {"addc", sum<Plus, AddCarry>},
      {"sub", sum<Subtract, SubtractCarry>},
      {"subc", sum<Subtract, SubtractCarry>},
      {"mul", multiply_step},
      {"mad", multiply_add_step},
      {"madc", multiply_add_step},
      {"fma", multiply_add_step},
      {"div", arithmetic<Divide>},
      {"rem",
       [](const Opcode& opcode, PtxInstruction&) {
         return for_integer(opcode.type, []<class T>() -> Step { return &binary<T, Remainder>; });
       }},
      {"neg", unary_of_any<Negate>},
      {"abs", unary_of_any<Absolute>},
      {"min", extreme<Minimum>},
      {"max", extreme<Maximum>},
      {"and", bitwise<And>},
      {"or", bitwise<Or>},
      {"xor", bitwise<Xor>},
      {"not",
       [](const Opcode& opcode, PtxInstruction&) -> Step {
         if (opcode.type == Type::pred) return &steps::negate;
         return for_unsigned(opcode.type, []<class T>() -> Step { return &unary<T, Not>; });
       }},
      {"cnot",
       [](const Opcode& opcode, PtxInstruction&) {
         return for_unsigned(opcode.type, []<class T>() -> Step { return &unary<T, IsZero>; });
       }},
      {"shl",
       [](const Opcode& opcode, PtxInstruction&) {
         return for_unsigned(opcode.type, []<class T>() -> Step { return &shift<T, ShiftLeft>; });
       }},
      {"shr",
       [](const Opcode& opcode, PtxInstruction&) {
         return for_integer(opcode.type, []<class T>() -> Step { return &shift<T, ShiftRight>; });
       }},
      {"shf",
       [](const Opcode& opcode, PtxInstruction& instruction) -> Step {
         instruction.number = (opcode.has("r") ? 1 : 0) | (opcode.has("wrap") ? 2 : 0);
         return &funnel_shift;
       }},
      {"clz",
       [](const Opcode& opcode, PtxInstruction&) {
         return for_unsigned(opcode.type,
                             []<class T>() -> Step { return &counting<T, CountZeros>; });
       }},
      {"popc",
       [](const Opcode& opcode, PtxInstruction&) {
         return for_unsigned(opcode.type,
                             []<class T>() -> Step { return &counting<T, CountOnes>; });
       }},
      {"bfind",
       [](const Opcode& opcode, PtxInstruction&) {
         return for_integer(opcode.type, []<class T>() -> Step { return &counting<T, FindBit>; });
       }},
      {"brev",
       [](const Opcode& opcode, PtxInstruction&) {
         return for_unsigned(opcode.type, []<class T>() -> Step { return &unary<T, ReverseBits>; });
       }},
      {"bfe",
       [](const Opcode& opcode, PtxInstruction&) {
         return for_integer(opcode.type, []<class T>() -> Step { return &bit_field_extract<T>; });
       }},
      {"bfi",
       [](const Opcode& opcode, PtxInstruction&) {
         return for_unsigned(opcode.type, []<class T>() -> Step { return &bit_field_insert<T>; });
       }},
      {"prmt", [](const Opcode&, PtxInstruction&) -> Step { return &permute_bytes; }},
      {"lop3", [](const Opcode&, PtxInstruction&) -> Step { return &logic_of_three; }},
      {"selp", [](const Opcode&, PtxInstruction&) -> Step { return &select; }},
      {"mov", [](const Opcode&, PtxInstruction&) -> Step { return &steps::move; }},
      {"cvt", convert_step},
      {"testp", test_step},
      {"copysign",
       [](const Opcode& opcode, PtxInstruction&) {
         return for_float(opcode, []<class T>() -> Step { return &binary<T, CopySign>; });
       }},
      {"sqrt", root_or_reciprocal<SquareRoot, SquareRoot>},
      {"rcp", root_or_reciprocal<Reciprocal, Reciprocal>},
      {"rsqrt",
       [](const Opcode& opcode, PtxInstruction& instruction) -> Step {
         if (opcode.type == Type::f64) {
           return opcode.has("ftz") ? &unary<double, UpperHalf<ReciprocalRoot>>
                                    : &unary<double, ReciprocalRoot>;
         }
         return of_float32<Approximated<reciprocal_root>>(opcode, instruction);
       }},
      {"ex2", of_float32<Approximated<exp2_of>>},
      {"lg2", of_float32<Approximated<log2_of>>},
      {"sin", of_float32<Approximated<sine>>},
      {"cos", of_float32<Approximated<cosine>>},
      {"tanh", of_float32<Approximated<tangent_of>>},
  };
  return *table;
}

// ---- Comparisons ----

template <class T, int kComparison>
const PtxInstruction* compare(const PtxInstruction* i, uint64_t* r, Thread&) {
  const Value<T> a = read<T>(r[i->a]);
  const Value<T> b = read<T>(r[i->b]);
  const bool unordered = a != a || b != b;
  bool is = false;
  switch (kComparison & 7) {
    case 0:
      is = a == b;
      break;
    case 1:
      is = !unordered && a != b;
      break;
    case 2:
      is = a < b;
      break;
    case 3:
      is = a <= b;
      break;
    case 4:
      is = a > b;
      break;
    case 5:
      is = a >= b;
      break;
    case 6:
      is = !unordered;
      break;
    default:
      break;
  }
  if (kComparison >= 8) is = is || unordered;
  r[i->d] = is ? 1 : 0;
  return i + 1;
}

/// eq ne lt le gt ge num, and from 8 on equ neu ltu leu gtu geu nan.
int comparison_of(const Opcode& opcode) {
  static const std::unordered_map<std::string, int> kNames{
      {"eq", 0},  {"ne", 1},   {"lt", 2},   {"le", 3},   {"gt", 4},   {"ge", 5},
      {"num", 6}, {"lo", 2},   {"ls", 3},   {"hi", 4},   {"hs", 5},   {"equ", 8},
      {"neu", 9}, {"ltu", 10}, {"leu", 11}, {"gtu", 12}, {"geu", 13}, {"nan", 15}};
  const auto found = opcode.words.empty() ? kNames.end() : kNames.find(opcode.words[0]);
  if (found == kNames.end()) throw PtxError("comparison '" + opcode.text + "' is not known here");
  return found->second;
}

template <class T>
Step compare_step_of(int comparison) {
  switch (comparison) {
    case 0:
      return &compare<T, 0>;
    case 1:
      return &compare<T, 1>;
    case 2:
      return &compare<T, 2>;
    case 3:
      return &compare<T, 3>;
    case 4:
      return &compare<T, 4>;
    case 5:
      return &compare<T, 5>;
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<Value<T>>) {
    switch (comparison) {
      case 6:
        return &compare<T, 6>;
      case 8:
        return &compare<T, 8>;
      case 9:
        return &compare<T, 9>;
      case 10:
        return &compare<T, 10>;
      case 11:
        return &compare<T, 11>;
      case 12:
        return &compare<T, 12>;
      case 13:
        return &compare<T, 13>;
      case 15:
        return &compare<T, 15>;
      default:
        break;
    }
  }
  return nullptr;
}

}  // namespace

Type type_of(std::string_view word) {
  static const std::unordered_map<std::string_view, Type> kTypes{
      {"pred", Type::pred}, {"b8", Type::b8},   {"b16", Type::b16},   {"b32", Type::b32},
      {"b64", Type::b64},   {"u8", Type::u8},   {"u16", Type::u16},   {"u32", Type::u32},
      {"u64", Type::u64},   {"s8", Type::s8},   {"s16", Type::s16},   {"s32", Type::s32},
      {"s64", Type::s64},   {"f16", Type::f16}, {"bf16", Type::bf16}, {"f32", Type::f32},
      {"f64", Type::f64}};
  const auto found = kTypes.find(word);
  return found == kTypes.end() ? Type::none : found->second;
}

size_t bytes_of(Type type) {
  switch (type) {
    case Type::pred:
    case Type::b8:
    case Type::u8:
    case Type::s8:
      return 1;
    case Type::b16:
    case Type::u16:
    case Type::s16:
    case Type::f16:
    case Type::bf16:
      return 2;
    case Type::b32:
    case Type::u32:
    case Type::s32:
    case Type::f32:
      return 4;
    default:
      return 8;
  }
}

Opcode::Opcode(const std::string& opcode) : text(opcode) {
  size_t begin = 0;
  while (begin <= opcode.size()) {
    const size_t end = std::min(opcode.find('.', begin), opcode.size());
    const std::string word = opcode.substr(begin, end - begin);
    begin = end + 1;
    if (name.empty()) {
      name = word;
      continue;
    }
    if (word.empty()) continue;  // As in `.shared::cta`, which has no type.
    words.push_back(word);
    const Type found = type_of(word);
    if (found == Type::none) continue;
    (type == Type::none ? type : from) = found;
  }
}

Step step_of(const Opcode& opcode, PtxInstruction& instruction) {
  const auto found = choices().find(opcode.name);
  const Step step = found == choices().end() ? nullptr : found->second(opcode, instruction);
  if (step == nullptr) throw PtxError("'" + opcode.text + "' is not known here");
  return step;
}

Step compare_step(const Opcode& opcode) {
  const int comparison = comparison_of(opcode);
  const auto choice = [&]<class T>() -> Step { return compare_step_of<T>(comparison); };
  const Step step =
      is_float(opcode.type) ? for_float(opcode, choice) : for_integer(opcode.type, choice);
  if (step == nullptr) throw PtxError("'" + opcode.text + "' is not known here");
  return step;
}

}  // namespace tandem::doubles::ptx
