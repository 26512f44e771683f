// How near the elementwise functions and their gradients come to the true values, over all
// magnitudes.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "tandem/tandem.h"

namespace tandem {
namespace {

template <class T>
using Limits = std::numeric_limits<T>;

/// Both signs of: powers of two through the whole range with points between, a dense grid where
/// most functions bend, subnormal numbers, and infinity.
template <class T>
std::vector<T> points() {
  std::vector<T> positive = {0, Limits<T>::denorm_min(), Limits<T>::min() / 2,
                             Limits<T>::infinity()};
  for (int e = Limits<T>::min_exponent; e < Limits<T>::max_exponent; ++e) {
    for (double m : {1.0, 1.1, 1.37, 1.5, 1.83}) {
      positive.push_back(static_cast<T>(std::ldexp(m, e - 1)));
    }
  }
  for (int i = 1; i < 20'000; ++i) positive.push_back(static_cast<T>(i * 0.000731));
  for (int i = 1; i < 8'000; ++i) positive.push_back(static_cast<T>(i * 0.1037));
  std::vector<T> all = {Limits<T>::quiet_NaN()};
  for (T x : positive) {
    all.push_back(x);
    all.push_back(-x);
  }
  return all;
}

template <class T>
T without_subnormals(T x) {
  return std::abs(x) < Limits<T>::min() ? std::copysign(T(0), x) : x;
}

/// The distance in units in the last place of the true value; numbers up to `negligible`, at least
/// the subnormal ones, are as good as zero.
template <class T>
double units_apart(T got, long double wanted, T negligible) {
  const auto rounded = static_cast<T>(wanted);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : Limits<double>::infinity();
  if (got == rounded) return 0;
  if (std::isinf(rounded) || std::isinf(got)) return Limits<double>::infinity();
  if (std::abs(rounded) <= negligible && std::abs(got) <= negligible) return 0;
  const T magnitude = std::max(std::abs(rounded), Limits<T>::min());
  const long double unit = std::nextafter(magnitude, Limits<T>::infinity()) - magnitude;
  return static_cast<double>(std::abs(static_cast<long double>(got) - wanted) / unit);
}

using Function = std::function<Tensor(const Tensor&)>;
using True = long double (*)(long double);

template <class T>
void expect_accurate(const char* name, const Function& f, True truth, double units,
                     T largest = Limits<T>::infinity(), T negligible = Limits<T>::min()) {
  std::vector<T> x;
  for (T point : points<T>()) {
    if (!(std::abs(point) > largest)) x.push_back(point);
  }
  const auto got = f(Tensor::from(x, {static_cast<int64_t>(x.size())})).template to_vector<T>();
  double worst = 0;
  T at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double apart = units_apart(got[i], truth(without_subnormals(x[i])), negligible);
    if (apart > worst) {
      worst = apart;
      at = x[i];
    }
  }
  EXPECT_LE(worst, units) << name << " is worst at " << at;
}

template <class T>
class Accuracy : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Accuracy, Types);

Tensor gelu_exact(const Tensor& x) { return gelu(x); }
Tensor gelu_tanh(const Tensor& x) { return gelu(x, {.approximate = true}); }

/// A product with a factor that falls to 0 faster than x grows.
long double times(long double x, long double factor) { return factor == 0 ? 0 : x * factor; }

TYPED_TEST(Accuracy, OfFunctions) {
  using T = TypeParam;
  expect_accurate<T>("exp", exp, std::exp, 2);
  expect_accurate<T>("expm1", expm1, std::expm1, 4);
  expect_accurate<T>("log", log, std::log, 2);
  expect_accurate<T>("log1p", log1p, std::log1p, 4);
  expect_accurate<T>("tanh", tanh, std::tanh, 5);
  expect_accurate<T>("sinh", sinh, std::sinh, 5);
  expect_accurate<T>("cosh", cosh, std::cosh, 5);
  expect_accurate<T>("erf", erf, std::erf, 3);
  expect_accurate<T>("asin", asin, std::asin, 4);
  expect_accurate<T>("acos", acos, std::acos, 4);
  expect_accurate<T>("atan", atan, std::atan, 4);
  expect_accurate<T>(
      "rsqrt", rsqrt, [](long double x) { return 1 / std::sqrt(x); }, 2);
}

TYPED_TEST(Accuracy, OfPeriodicFunctions) {
  using T = TypeParam;
  expect_accurate<T>("sin", sin, std::sin, 4);
  expect_accurate<T>("cos", cos, std::cos, 4);
  expect_accurate<T>("tan", tan, std::tan, 6);
}

/// Where the sigmoid or the normal distribution is subnormal, its product with x is zero too.
TYPED_TEST(Accuracy, OfActivations) {
  using T = TypeParam;
  const T everywhere = Limits<T>::infinity();
  const T negligible = 1000 * Limits<T>::min();
  expect_accurate<T>(
      "sigmoid", sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }, 4);
  expect_accurate<T>(
      "silu", silu, [](long double x) { return times(x, 1 / (1 + std::exp(-x))); }, 5, everywhere,
      negligible);
  expect_accurate<T>(
      "softplus", softplus,
      [](long double x) { return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::abs(x))); }, 4);
  expect_accurate<T>(
      "gelu", gelu_exact,
      [](long double x) {
        return times(x, std::erfc(-x / std::numbers::sqrt2_v<long double>) / 2);
      },
      8, everywhere, negligible);
}

/// The cubic's own rounding is magnified by the exponential.
TYPED_TEST(Accuracy, OfGeluByTanh) {
  using T = TypeParam;
  expect_accurate<T>(
      "gelu by tanh", gelu_tanh,
      [](long double x) {
        const long double k = std::sqrt(8 * std::numbers::inv_pi_v<long double>);
        const long double u = k * (x + 0.044715L * x * x * x);
        return times(x, 1 / (1 + std::exp(-u)));
      },
      20, T(3));
}

Function slope(Function f) {
  return [f](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(f(x), x);
  };
}

/// Those of tanh and sigmoid are made from their results, as in TensorFlow: they are right to a
/// unit next to 1, and no better where they are small.
TYPED_TEST(Accuracy, OfGradients) {
  using T = TypeParam;
  using Real = long double;
  const T everywhere = Limits<T>::infinity();
  const T negligible = 1000 * Limits<T>::min();
  expect_accurate<T>(
      "reciprocal'", slope(reciprocal), [](Real x) { return -1 / (x * x); }, 2);
  expect_accurate<T>(
      "sqrt'", slope(sqrt), [](Real x) { return 1 / (2 * std::sqrt(x)); }, 2);
  expect_accurate<T>(
      "rsqrt'", slope(rsqrt), [](Real x) { return -0.5L / (x * std::sqrt(x)); }, 3);
  expect_accurate<T>("exp'", slope(exp), std::exp, 2);
  expect_accurate<T>("expm1'", slope(expm1), std::exp, 2);
  expect_accurate<T>(
      "log'", slope(log), [](Real x) { return 1 / x; }, 1);
  expect_accurate<T>(
      "log1p'", slope(log1p), [](Real x) { return 1 / (1 + x); }, 2);
  expect_accurate<T>("sin'", slope(sin), std::cos, 4);
  expect_accurate<T>(
      "cos'", slope(cos), [](Real x) { return -std::sin(x); }, 4);
  expect_accurate<T>(
      "tan'", slope(tan), [](Real x) { return 1 / (std::cos(x) * std::cos(x)); }, 12);
  expect_accurate<T>(
      "asin'", slope(asin), [](Real x) { return 1 / std::sqrt((1 - x) * (1 + x)); }, 3);
  expect_accurate<T>(
      "acos'", slope(acos), [](Real x) { return -1 / std::sqrt((1 - x) * (1 + x)); }, 3);
  expect_accurate<T>(
      "atan'", slope(atan), [](Real x) { return 1 / (1 + x * x); }, 2);
  expect_accurate<T>("sinh'", slope(sinh), std::cosh, 5);
  expect_accurate<T>("cosh'", slope(cosh), std::sinh, 5);
  expect_accurate<T>(
      "erf'", slope(erf),
      [](Real x) { return 2 / std::sqrt(std::numbers::pi_v<Real>) * std::exp(-x * x); }, 512,
      everywhere, negligible);  // exp magnifies the rounding of the square.
  expect_accurate<T>(
      "square'", slope(square), [](Real x) { return 2 * x; }, 0);
  expect_accurate<T>(
      "softplus'", slope(softplus), [](Real x) { return 1 / (1 + std::exp(-x)); }, 4);
  expect_accurate<T>(
      "silu'", slope(silu),
      [](Real x) {
        const Real s = 1 / (1 + std::exp(-x));
        return s + times(x, s * (1 / (1 + std::exp(x))));
      },
      8, T(1), negligible);  // It is 0 at -1.28.
  expect_accurate<T>(
      "elu'", slope([](const Tensor& x) { return elu(x); }),
      [](Real x) { return std::exp(std::min(x, Real(0))); }, 4);
}

}  // namespace
}  // namespace tandem
