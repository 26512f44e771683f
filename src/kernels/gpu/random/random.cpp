// Draws the random distributions. Words, and with them whole numbers and uniform ones, are the
// CPU's; normal numbers differ by what logarithm, sine and cosine round differently.
#include <fmt/format.h>

#include "kernels/distributions.h"
#include "kernels/gpu/random/drawing.h"

namespace tandem::kernels::gpu {
namespace {

// Evenly spread over [0, 1). The bits of a double become the fraction of a number in [1, 2).
constexpr const char* kUnit = R"(
FN float unit_of(u32 bits) { return (float)(i32)(bits >> 8) * (1.0f / 16777216.0f); }
FN double unit_of(u64 bits) {
  return DOUBLE_OF_BITS(bits >> 12 | ((u64)0x3ff00000u << 32)) - 1.0;
}
)";

// Logarithms of numbers within (0, 1], and the sine and cosine of angles within [0, 2 pi], to about
// a unit in the last place, after Moshier's Cephes library. They have no branches, so that loops
// become vectors; a device's own functions take numbers of any size and have.
constexpr const char* kCurves = R"(
FN float log_of_part(float x) {
  const u32 bits = BITS_OF_FLOAT(x);
  const u32 moved = bits - 0x3f3504f3u;  /* The root of 1/2 becomes 0. */
  const float e = (float)((i32)moved >> 23);
  const float f = FLOAT_OF_BITS((moved & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float z = f * f;
  float p = 7.0376836292e-2f;
  p = fma(p, f, -1.1514610310e-1f);
  p = fma(p, f, 1.1676998740e-1f);
  p = fma(p, f, -1.2420140846e-1f);
  p = fma(p, f, 1.4249322787e-1f);
  p = fma(p, f, -1.6668057665e-1f);
  p = fma(p, f, 2.0000714765e-1f);
  p = fma(p, f, -2.4999993993e-1f);
  p = fma(p, f, 3.3333331174e-1f);
  const float rest = fma(-0.5f, z, fma(-2.12194440e-4f, e, p * f * z));
  return fma(0.693359375f, e, f + rest);
}
FN double log_of_part(double x) {
  const u64 half_root = ((u64)0x3fe6a09eu << 32) | 0x667f3bcdu;
  const u64 moved = BITS_OF_DOUBLE(x) - half_root;
  const double e = (double)((i32)(moved >> 32) >> 20);
  const u64 fraction = ((u64)0x000fffffu << 32) | 0xffffffffu;
  const double f = DOUBLE_OF_BITS((moved & fraction) + half_root) - 1.0;
  const double z = f * f;
  double p = 1.01875663804580931796e-4;
  p = fma(p, f, 4.97494994976747001425e-1);
  p = fma(p, f, 4.70579119878881725854e0);
  p = fma(p, f, 1.44989225341610930846e1);
  p = fma(p, f, 1.79368678507819816313e1);
  p = fma(p, f, 7.70838733755885391666e0);
  double q = f + 1.12873587189167450590e1;
  q = fma(q, f, 4.52279145837532221105e1);
  q = fma(q, f, 8.29875266912776603211e1);
  q = fma(q, f, 7.11544750618563894466e1);
  q = fma(q, f, 2.31251620126765340583e1);
  const double rest = fma(-0.5, z, fma(-2.121944400546905827679e-4, e, f * (z * p / q)));
  return fma(0.693359375, e, f + rest);
}
FN float sine_near(float x, float z) {
  return fma(fma(fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f) * z, x, x);
}
FN float cosine_near(float z) {
  const float p = fma(fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f);
  return fma(p * z, z, fma(-0.5f, z, 1.0f));
}
FN double sine_near(double x, double z) {
  double p = 1.58962301576546568060e-10;
  p = fma(p, z, -2.50507477628578072866e-8);
  p = fma(p, z, 2.75573136213857245213e-6);
  p = fma(p, z, -1.98412698295895385996e-4);
  p = fma(p, z, 8.33333333332211858878e-3);
  p = fma(p, z, -1.66666666666666307295e-1);
  return fma(p * z, x, x);
}
FN double cosine_near(double z) {
  double p = -1.13585365213876817300e-11;
  p = fma(p, z, 2.08757008419747316778e-9);
  p = fma(p, z, -2.75573141792967388112e-7);
  p = fma(p, z, 2.48015872888517045348e-5);
  p = fma(p, z, -1.38888888888730564116e-3);
  p = fma(p, z, 4.16666666666665929218e-2);
  return fma(p * z, z, fma(-0.5, z, 1.0));
}
)";

// The two coordinates of a point whose direction is `way`.
constexpr const char* kDirection = R"(
FN void direction_of(float way, float* x, float* y) {
  const int quarter = (int)(way * 0.636619772367581343f + 0.5f);
  const float near = fma(-(float)quarter, -4.37113883e-8f, fma(-(float)quarter, 1.57079637f, way));
  const float s = sine_near(near, near * near);
  const float c = cosine_near(near * near);
  const float a = (quarter & 1) != 0 ? s : c;
  const float b = (quarter & 1) != 0 ? c : s;
  *x = ((quarter + 1) & 2) != 0 ? -a : a;
  *y = (quarter & 2) != 0 ? -b : b;
}
FN void direction_of(double way, double* x, double* y) {
  const int quarter = (int)(way * 0.636619772367581343 + 0.5);
  const double near = fma(-(double)quarter, 6.123233995736766e-17, fma(-(double)quarter, 1.5707963267948966, way));
  const double s = sine_near(near, near * near);
  const double c = cosine_near(near * near);
  const double a = (quarter & 1) != 0 ? s : c;
  const double b = (quarter & 1) != 0 ? c : s;
  *x = ((quarter + 1) & 2) != 0 ? -a : a;
  *y = (quarter & 2) != 0 ? -b : b;
}
)";

// The upper half of bits * range + carried.
constexpr const char* kUpper = R"(
FN u64 upper_of(u64 bits, u64 range, u64 carried) {
  const u64 a = bits >> 32, b = bits & 0xffffffffu, c = range >> 32, d = range & 0xffffffffu;
  const u64 low = b * d;
  const u64 first = a * d + (low >> 32);
  const u64 second = b * c + (first & 0xffffffffu);
  const u64 whole = second << 32 | (low & 0xffffffffu);
  return a * c + (first >> 32) + (second >> 32) + (whole + carried < whole ? 1 : 0);
}
)";

/// The inverse of erf as a function; see kInverseErf.
template <class T>
std::string inverse_erf(const char* type) {
  std::string text = fmt::format(
      "\nFN {0} inverse_erf({0} x) {{\n  const {0} w = -log_of_part(fma(-x, x, ({0})1)) - "
      "({0}){1};\n  {0} "
      "sum = 0;\n",
      type, kInverseErfCentre<T>);
  for (const T coefficient : kInverseErf<T>) {
    text += fmt::format("  sum = fma(sum, w, ({}){:.17e});\n", type, double{coefficient});
  }
  return text + "  return x * sum;\n}\n";
}

std::string_view inverse_erf(DType dtype) {
  static const std::string of_float = inverse_erf<float>("float");
  static const std::string of_double = inverse_erf<double>("double");
  return dtype == DType::float32 ? of_float : of_double;
}

// Box and Muller: two independent normal numbers are a point of random direction and distance.
constexpr const char* kNormal =
    "T drawn[most_words]; INDEPENDENT for (int pair = 0; pair < (int)(n) * PER / 2; ++pair) { "
    "const T far = (T)b * sqrt((T)-2 * log_of_part((T)1 - unit_of(BITS(2 * pair)))); T c; T s; "
    "direction_of((T)6.28318530717958647692 * unit_of(BITS(2 * pair + 1)), &c, &s); "
    "drawn[2 * pair] = fma(far, c, (T)a); drawn[2 * pair + 1] = fma(far, s, (T)a); }";

constexpr const char* kTruncatedNormal =
    "{ const T z = inverse_erf(fma(unit_of(BITS(k)), (T)2, (T)STEP - (T)1) * (T)WITHIN) * "
    "(T)1.41421356237309504880; "
    "y[i] = fma(z > (T)2 ? (T)2 : z < (T)-2 ? (T)-2 : z, (T)b, (T)a); }";

constexpr const char* kUniform =
    "{ const T u = fma(unit_of(BITS(k)), (T)b, (T)a); y[i] = u < (T)last ? u : (T)last; }";

constexpr const char* kIntegers32 =
    "y[i] = (T)(least + (i64)upper_of((u64)words[2 * (k) + 1] << 32 | words[2 * (k)], (u64)range, "
    "0));";

constexpr const char* kIntegers64 =
    "y[i] = least + (i64)upper_of((u64)words[4 * (k) + 3] << 32 | words[4 * (k) + 2], (u64)range, "
    "upper_of((u64)words[4 * (k) + 1] << 32 | words[4 * (k)], (u64)range, 0));";

constexpr const char* kBernoulli = "y[i] = (u64)words[k] < (u64)below ? 1 : 0;";

DrawingText text_of(Distribution distribution, const Signature& s) {
  const DType dtype = s.outputs[0].dtype;
  const bool is_float = dtype == DType::float32;
  DrawingText text{s.op->name, types_of(dtype)};
  text.words.emplace_back("SETUP", "GLOBAL T* y = AT(T, 1);");
  const auto add = [&](const char* operands, const char* write,
                       std::vector<std::string_view> functions = {}) {
    text.words.emplace_back("OPERANDS", std::string("MEMORY(1), ") + operands);
    text.words.emplace_back("WRITE(i, k)", write);
    text.functions = std::move(functions);
  };
  const char* bits = is_float ? "words[k]" : "((u64)words[2 * (k) + 1] << 32 | words[2 * (k)])";
  switch (distribution) {
    case Distribution::normal:
      text.words.emplace_back("BITS(k)", bits);
      add("double a, double b", "y[i] = drawn[k];", {kUnit, kCurves, kDirection});
      text.prepare = kNormal;
      break;
    case Distribution::truncated_normal:
      text.words.emplace_back("BITS(k)", bits);
      text.words.emplace_back(
          "STEP", fmt::format("{:.17e}", is_float ? double{kUnitStep<float>} : kUnitStep<double>));
      text.words.emplace_back("WITHIN", fmt::format("{:.17e}", kWithinTwo));
      add("double a, double b", kTruncatedNormal, {kUnit, kCurves, inverse_erf(dtype)});
      break;
    case Distribution::uniform:
      text.words.emplace_back("BITS(k)", bits);
      add("double a, double b, double last", kUniform, {kUnit});
      break;
    case Distribution::integers:
      add("i64 least, i64 range", dtype == DType::int32 ? kIntegers32 : kIntegers64, {kUpper});
      break;
    case Distribution::bernoulli:
      add("i64 below", kBernoulli);
      break;
  }
  return text;
}

/// How many elements the words of a block are for.
int per_block(Distribution distribution, DType dtype) {
  const auto size = static_cast<int>(size_of(dtype));
  if (distribution == Distribution::bernoulli) return 4;
  return (distribution == Distribution::integers ? 8 : 16) / size;
}

void pass(Call& call, Distribution distribution, DType dtype, const DistributionParameters& p) {
  switch (distribution) {
    case Distribution::normal:
    case Distribution::truncated_normal:
      call.real(p.a).real(p.b);
      break;
    case Distribution::uniform:
      call.real(p.a).real(p.b - p.a);
      call.real(dtype == DType::float32 ? double{p.last<float>()} : p.last<double>());
      break;
    case Distribution::integers:
      call.whole(p.least).whole(static_cast<int64_t>(p.range));
      break;
    case Distribution::bernoulli:
      call.whole(static_cast<int64_t>(p.of_2_32()));
      break;
  }
}

auto prepare(Distribution distribution) {
  return [distribution](const Signature& s, const Device& device) {
    const auto& [dtype, shape] = s.outputs[0];
    return op::executable(
        [distribution, dtype = dtype,
         drawing =
             Drawing(device, s, shape, per_block(distribution, dtype), text_of(distribution, s)),
         parameters = DistributionParameters(distribution, s.attrs)](const Launch& launch) {
          if (drawing.is_empty()) return;
          Call call(launch, drawing.kernel());
          drawing.begin(call, launch).out(0);
          pass(call, distribution, dtype, parameters);
          drawing.issue(call);
        });
  };
}

}  // namespace

void register_random(op::BackendKernels& kernels) {
  using enum DType;
  add_kernel(kernels, "random_normal", {float32, float64}, prepare(Distribution::normal));
  add_kernel(kernels, "random_truncated_normal", {float32, float64},
             prepare(Distribution::truncated_normal));
  add_kernel(kernels, "random_uniform", {float32, float64}, prepare(Distribution::uniform));
  add_kernel(kernels, "random_integers", {int32, int64}, prepare(Distribution::integers));
  add_kernel(kernels, "random_bernoulli", {boolean}, prepare(Distribution::bernoulli));
}

}  // namespace tandem::kernels::gpu
