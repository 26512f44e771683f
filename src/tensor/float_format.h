/// How NumPy prints floating numbers: with as few digits as tell them apart, all elements of a
/// tensor in columns. After numpy/_core/arrayprint.py, the default options of version 2.4.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/half.h"

namespace tandem {

/// The shortest decimal number that is nearest to a value of its type: d.ddd times 10^exponent.
struct Decimal {
  double value = 0;    ///< Exactly; may be not finite, and then the rest means nothing.
  std::string digits;  ///< The digits; there is at least one.
  int exponent = 0;
};

Decimal decimal_of(float x);
Decimal decimal_of(double x);
Decimal decimal_of(core::Float16 x);
Decimal decimal_of(core::BFloat16 x);

/// What the choice of a notation depends on besides the values.
struct FloatTraits {
  int precision;              ///< Decimal digits that the type always holds.
  double alone_end;           ///< From here on a number alone has an exponent.
  double (*rounded)(double);  ///< Rounds a number to the type.
};

template <class T>
FloatTraits float_traits();

/// A number alone: "1.5", "1e-05", "nan".
std::string str_of(const Decimal& number, const FloatTraits& traits);

/// Chooses widths, digits and notation for all of `numbers` together.
class FloatFormat {
 public:
  FloatFormat(std::span<const Decimal> numbers, const FloatTraits& traits);

  std::string operator()(const Decimal& number) const;

 private:
  bool wants_exponents(std::span<const Decimal> numbers, const FloatTraits& traits) const;
  void measure(const Decimal& number);

  bool exponents_ = false;
  size_t left_ = 0;      ///< Width before the point.
  size_t right_ = 0;     ///< Width after the point, with the exponent if there is one.
  size_t fraction_ = 0;  ///< Digits between point and exponent.
  size_t exponent_digits_ = 2;
};

}  // namespace tandem
