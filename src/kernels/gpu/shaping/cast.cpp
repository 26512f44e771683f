// Converts the elements of any dtype to any other, as kernels/conversion.h does.
#include <fmt/format.h>

#include "kernels/gpu/elementwise/element_kernel.h"

namespace tandem::kernels::gpu {
namespace {

constexpr std::string_view kConversions = R"(
/* See core/half.h. */
FN float float_of_bfloat16(u16 x) { return FLOAT_OF_BITS((u32)x << 16); }
FN u16 bfloat16_of(float x) {
  const u32 bits = BITS_OF_FLOAT(x);
  return x != x ? (u16)((bits >> 16) | 0x40) : (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
FN float float_of_float16(u16 x) {
  const u32 sign = (u32)(x & 0x8000u) << 16;
  const u32 rest = x & 0x7fffu;
  const u32 special = 0x7f800000u | (rest & 0x3ff) << 13;
  const u32 normal = (rest << 13) + 0x38000000u;
  const u32 subnormal = BITS_OF_FLOAT((float)rest * 5.9604644775390625e-8f);
  return FLOAT_OF_BITS(sign | (rest >= 0x7c00 ? special : rest >= 0x400 ? normal : subnormal));
}
FN u16 float16_of(float x) {
  const u32 bits = BITS_OF_FLOAT(x);
  const u32 magnitude = bits & 0x7fffffffu;
  const u32 subnormal = BITS_OF_FLOAT(FLOAT_OF_BITS(magnitude) + 0.5f) - 0x3f000000u;
  const u32 normal = (magnitude - 0x38000000u + 0xfff + (magnitude >> 13 & 1)) >> 13;
  const u32 rest = magnitude > 0x7f800000u    ? 0x7e00
                   : magnitude >= 0x477ff000u ? 0x7c00
                   : magnitude < 0x38800000u  ? subnormal
                                              : normal;
  return (u16)(bits >> 16 & 0x8000 | rest);
}
/* Towards zero; beyond the limits it is the limit, and for NaN 0. END is one more than MOST. */
#define SATURATING(NAME, TO, FROM, LEAST, MOST, END) \
  FN TO NAME(FROM x) { \
    const TO within = (TO)(x >= (FROM)LEAST && x < (FROM)END ? x : (FROM)0); \
    return x >= (FROM)END ? MOST : x < (FROM)LEAST ? LEAST : within; \
  }
SATURATING(u8_of, u8, float, 0, 255, 256)
SATURATING(u8_of, u8, double, 0, 255, 256)
SATURATING(i8_of, i8, float, (-128), 127, 128)
SATURATING(i8_of, i8, double, (-128), 127, 128)
SATURATING(i16_of, i16, float, (-32768), 32767, 32768)
SATURATING(i16_of, i16, double, (-32768), 32767, 32768)
SATURATING(u16_of, u16, float, 0, 65535, 65536)
SATURATING(u16_of, u16, double, 0, 65535, 65536)
SATURATING(u32_of, u32, float, 0, 0xffffffffu, 4294967296.0)
SATURATING(u32_of, u32, double, 0, 0xffffffffu, 4294967296.0)
SATURATING(u64_of, u64, float, 0, (u64)0xffffffffffffffff, 18446744073709551616.0)
SATURATING(u64_of, u64, double, 0, (u64)0xffffffffffffffff, 18446744073709551616.0)
SATURATING(i32_of, i32, float, (-2147483647 - 1), 2147483647, 2147483648.0)
SATURATING(i32_of, i32, double, (-2147483647 - 1), 2147483647, 2147483648.0)
SATURATING(i64_of, i64, float, (-(i64)0x7fffffffffffffff - 1), (i64)0x7fffffffffffffff, 9223372036854775808.0)
SATURATING(i64_of, i64, double, (-(i64)0x7fffffffffffffff - 1), (i64)0x7fffffffffffffff, 9223372036854775808.0)
)";

/// An element as a number: halves become floats.
std::string loaded(DType from) {
  if (from == DType::float16) return "float_of_float16(x0)";
  if (from == DType::bfloat16) return "float_of_bfloat16(x0)";
  return "x0";
}

std::string converted(const std::string& x, DType from, DType to) {
  switch (to) {
    case DType::float16:
      return fmt::format("float16_of((float){})", x);
    case DType::bfloat16:
      return fmt::format("bfloat16_of((float){})", x);
    case DType::boolean:
      return fmt::format("{} != 0", x);
    case DType::float32:
    case DType::float64:
      return fmt::format("({}){}", type_name(to), x);
    default:
      return is_floating(from) ? fmt::format("{}_of({})", type_name(to), x)
                               : fmt::format("({}){}", type_name(to), x);
  }
}

ExecutablePtr prepare_cast(const Signature& s, const Device& device) {
  const DType from = s.inputs[0].dtype;
  const DType to = s.outputs[0].dtype;
  // A half that becomes one of its own type goes through float32 too, as on a CPU: a NaN is quiet.
  return element_executable(device,
                            {.name = "cast",
                             .inputs = {from},
                             .outputs = {to},
                             .functions = {kConversions},
                             .results = {converted(loaded(from), from, to)}},
                            Loops(s));
}

}  // namespace

void register_cast(op::BackendKernels& kernels) {
  add_kernel(kernels, "cast", all_dtypes(), prepare_cast);
}

}  // namespace tandem::kernels::gpu
