#include "tensor/float_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace tandem {
namespace {

constexpr int kPrecision = 8;  // Most digits after the point.

/// The number that a text as "-1.25e+02" says.
Decimal parsed(double value, std::string_view text) {
  Decimal number{value, {}, 0};
  const size_t e = text.find('e');
  for (char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') number.digits += c;
  }
  number.exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  return number;
}

template <class T>
Decimal shortest(T x) {
  if (!std::isfinite(x)) return {x, {}, 0};
  std::array<char, 64> text;
  const auto end = std::to_chars(text.begin(), text.end(), x, std::chars_format::scientific).ptr;
  return parsed(x, {text.begin(), static_cast<size_t>(end - text.begin())});
}

/// Digits for types without a conversion of their own: ever more of them, until they are enough.
template <class Half, class Round>
Decimal shortest_half(Half x, Round round) {
  const float value = core::to_float(x);
  if (!std::isfinite(value)) return {value, {}, 0};
  for (int digits = 0;; ++digits) {
    const std::string text = fmt::format("{:.{}e}", value, digits);
    if (round(std::strtof(text.c_str(), nullptr)).bits == x.bits) return parsed(value, text);
  }
}

std::string_view without_zeros(std::string_view text) {
  return text.substr(0, text.find_last_not_of('0') + 1);
}

/// A number cut at its point; the sign is on the left.
struct Halves {
  std::string left;
  std::string right;
};

Halves at_point(const std::string& text) {
  const size_t point = text.find('.');
  return {text.substr(0, point), std::string(without_zeros(text.substr(point + 1)))};
}

/// Without an exponent, no more than `most` digits after the point, no zeros at the end.
Halves positional(const Decimal& number, int most) {
  const auto digits = static_cast<int>(number.digits.size());
  if (digits - 1 - number.exponent > most) {
    return at_point(fmt::format("{:.{}f}", number.value, most));
  }
  std::string all = number.digits;
  int before = number.exponent + 1;  // Digits before the point.
  if (before < 1) {
    all.insert(0, static_cast<size_t>(1 - before), '0');
    before = 1;
  }
  if (before > static_cast<int>(all.size())) all.resize(static_cast<size_t>(before), '0');
  const auto point = static_cast<size_t>(before);
  return {fmt::format("{}{}", std::signbit(number.value) ? "-" : "", all.substr(0, point)),
          std::string(without_zeros(all.substr(point)))};
}

struct Scientific {
  Halves mantissa;
  int exponent;
};

Scientific scientific(const Decimal& number, int most) {
  if (static_cast<int>(number.digits.size()) - 1 > most) {
    const std::string text = fmt::format("{:.{}e}", number.value, most);
    const size_t e = text.find('e');
    return {at_point(text.substr(0, e)), std::atoi(text.c_str() + e + 1)};
  }
  return {{fmt::format("{}{}", std::signbit(number.value) ? "-" : "", number.digits[0]),
           std::string(without_zeros(number.digits.substr(1)))},
          number.exponent};
}

std::string name_of_infinite(double value) {
  if (std::isnan(value)) return "nan";
  return value < 0 ? "-inf" : "inf";
}

template <class Half>
double half_rounded(double x) {
  const auto narrow = static_cast<float>(x);
  if constexpr (std::is_same_v<Half, core::Float16>)
    return core::to_float(core::to_float16(narrow));
  return core::to_float(core::to_bfloat16(narrow));
}

}  // namespace

Decimal decimal_of(float x) { return shortest(x); }
Decimal decimal_of(double x) { return shortest(x); }
Decimal decimal_of(core::Float16 x) { return shortest_half(x, core::to_float16); }
Decimal decimal_of(core::BFloat16 x) { return shortest_half(x, core::to_bfloat16); }

template <>
FloatTraits float_traits<float>() {
  return {6, 1e16, [](double x) { return static_cast<double>(static_cast<float>(x)); }};
}
template <>
FloatTraits float_traits<double>() {
  return {15, 1e16, [](double x) { return x; }};
}
template <>
FloatTraits float_traits<core::Float16>() {
  return {3, 1e3, half_rounded<core::Float16>};
}
template <>
FloatTraits float_traits<core::BFloat16>() {
  return {2, 1e16, half_rounded<core::BFloat16>};
}

std::string str_of(const Decimal& number, const FloatTraits& traits) {
  if (!std::isfinite(number.value)) return name_of_infinite(number.value);
  const double size = std::abs(number.value);
  constexpr int kAll = 1100;
  if (size != 0 && (size >= traits.alone_end || size < 1e-4)) {
    const auto [mantissa, exponent] = scientific(number, kAll);
    return fmt::format("{}{}{}e{:+03}", mantissa.left, mantissa.right.empty() ? "" : ".",
                       mantissa.right, exponent);
  }
  const Halves halves = positional(number, kAll);
  return fmt::format("{}.{}", halves.left, halves.right.empty() ? "0" : halves.right);
}

FloatFormat::FloatFormat(std::span<const Decimal> numbers, const FloatTraits& traits)
    : exponents_(wants_exponents(numbers, traits)) {
  bool any_finite = false;
  for (const Decimal& number : numbers) {
    if (!std::isfinite(number.value)) continue;
    any_finite = true;
    measure(number);
  }
  right_ = fraction_ + (exponents_ && any_finite ? exponent_digits_ + 2 : 0);
  for (const Decimal& number : numbers) {
    if (std::isfinite(number.value)) continue;
    const bool any_negative = std::ranges::any_of(
        numbers, [](const Decimal& n) { return std::isinf(n.value) && n.value < 0; });
    const size_t widest = any_negative ? 4 : 3;
    if (widest > right_ + 1) left_ = std::max(left_, widest - right_ - 1);
    break;
  }
}

bool FloatFormat::wants_exponents(std::span<const Decimal> numbers,
                                  const FloatTraits& traits) const {
  double most = 0;
  double least = HUGE_VAL;
  for (const Decimal& number : numbers) {
    if (!std::isfinite(number.value) || number.value == 0) continue;
    most = std::max(most, std::abs(number.value));
    least = std::min(least, std::abs(number.value));
  }
  if (most == 0) return false;
  return most >= std::pow(10.0, std::min(kPrecision, traits.precision)) ||
         least < traits.rounded(0.0001) || traits.rounded(most / least) > 1000;
}

void FloatFormat::measure(const Decimal& number) {
  if (exponents_) {
    const auto [mantissa, exponent] = scientific(number, kPrecision);
    left_ = std::max(left_, mantissa.left.size());
    fraction_ = std::max(fraction_, mantissa.right.size());
    exponent_digits_ = std::max(exponent_digits_, fmt::formatted_size("{}", std::abs(exponent)));
  } else {
    const Halves halves = positional(number, kPrecision);
    left_ = std::max(left_, halves.left.size());
    fraction_ = std::max(fraction_, halves.right.size());
  }
}

std::string FloatFormat::operator()(const Decimal& number) const {
  if (!std::isfinite(number.value)) {
    return fmt::format("{:>{}}", name_of_infinite(number.value), left_ + right_ + 1);
  }
  if (exponents_) {
    // All have the same number of digits, more of the exact value where few would tell it apart.
    const std::string text = fmt::format("{:#.{}e}", number.value, fraction_);
    const size_t e = text.find('e');
    const size_t point = text.find('.');
    return fmt::format("{:>{}}{}{:0>{}}", text.substr(0, point), left_,
                       text.substr(point, e + 2 - point), text.substr(e + 2), exponent_digits_);
  }
  const Halves halves = positional(number, kPrecision);
  return fmt::format("{:>{}}.{:<{}}", halves.left, left_, halves.right, right_);
}

}  // namespace tandem
