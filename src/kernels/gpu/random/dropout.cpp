// dropout draws which elements stay, scales them and writes down which they are; dropout_keep does
// the same to a gradient, by what was written down.
#include <cmath>

#include "kernels/gpu/random/drawing.h"

namespace tandem::kernels::gpu {
namespace {

double scale_of(const Signature& s) { return 1 / (1 - s.attrs.get<double>("rate")); }

// One word decides on each element, of which these bits count. y may be x.
DrawingText text_of(const Signature& s, const char* bits) {
  DrawingText text{s.op->name, types_of(s.outputs[0].dtype)};
  text.words.emplace_back("BITS", bits);
  text.words.emplace_back("SETUP",
                          "const GLOBAL T* x = AT(T, 1); GLOBAL T* y = AT(T, 2); "
                          "GLOBAL u8* keep = AT(u8, 3); const u32 below = (u32)dropped_below; "
                          "const C factor = (C)scale;");
  text.words.emplace_back(
      "WRITE(i, k)",
      "{ const int kept = (words[k] & BITS) >= below; const C scaled = x[i] * factor; "
      "y[i] = kept ? scaled : (C)0; keep[i] = (u8)kept; }");
  return text;
}

ExecutablePtr prepare_dropout(const Signature& s, const Device& device) {
  DrawingText text = text_of(s, "0xFFFFFFFFu");
  text.words.emplace_back("OPERANDS",
                          "MEMORY(1), MEMORY(2), MEMORY(3), i64 dropped_below, double scale");
  const auto dropped_below = static_cast<uint32_t>(s.attrs.get<double>("rate") * 0x1p32);
  return op::executable([drawing = Drawing(device, s, s.outputs[0].shape, 4, std::move(text)),
                         dropped_below, scale = scale_of(s)](const Launch& launch) {
    if (drawing.is_empty()) return;
    Call call(launch, drawing.kernel());
    drawing.begin(call, launch).in(0).out(0).out(1).whole(dropped_below).real(scale);
    drawing.issue(call);
  });
}

// The stream and the threshold are explained in kernels/cpu/random/dropout.cpp.
ExecutablePtr prepare_stateless(const Signature& s, const Device& device) {
  DrawingText text = text_of(s, "0x7FFFFFu");
  text.words.emplace_back(
      "OPERANDS", "MEMORY(1), MEMORY(2), MEMORY(3), MEMORY(4), i64 dropped_below, double scale");
  text.stream =
      "const GLOBAL i64* pair = AT(const i64, 4); "
      "const PhiloxBlock mixed = philox((u64)pair[0], (u64)pair[1], "
      "((u64)0x02461E29u << 32) | 0x3EC8F720u); "
      "const u64 key = ((u64)mixed.b << 32) | mixed.a; "
      "const u64 upper = ((u64)mixed.d << 32) | mixed.c;";
  const double rate = double{static_cast<float>(s.attrs.get<double>("rate"))};
  return op::executable([drawing = Drawing(device, s, s.outputs[0].shape, 4, std::move(text)),
                         dropped_below = static_cast<int64_t>(std::ceil(rate * 0x1p23)),
                         scale = scale_of(s)](const Launch& launch) {
    if (drawing.is_empty()) return;
    Call call(launch, drawing.kernel());
    drawing.begin(call, launch).in(0).out(0).out(1).in(1).whole(dropped_below).real(scale);
    drawing.issue(call);
  });
}

constexpr const char* kKeep = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 count, double scale) {
  const GLOBAL T* x = AT(T, 0);
  const GLOBAL u8* keep = AT(u8, 1);
  GLOBAL T* y = AT(T, 2);
  const C factor = (C)scale;
  INDEPENDENT EACH(i, count) {
    const C scaled = x[i] * factor;
    y[i] = keep[i] != 0 ? scaled : (C)0;
  }
}
)";

ExecutablePtr prepare_keep(const Signature& s, const Device& device) {
  const op::TensorType& type = s.outputs[0];
  const Kernel kernel(device,
                      {.name = "dropout_keep", .words = types_of(type.dtype), .body = kKeep});
  return op::executable(
      [kernel, count = count_of(type), scale = scale_of(s)](const Launch& launch) {
        Call(launch, kernel).in(0).in(1).out(0).whole(count).real(scale).each(count);
      });
}

}  // namespace

void register_dropout(op::BackendKernels& kernels) {
  const std::vector<DType> dtypes = {DType::float32, DType::float64};
  add_kernel(kernels, "dropout", dtypes, prepare_dropout);
  add_kernel(kernels, "stateless_dropout", dtypes, prepare_stateless);
  add_kernel(kernels, "dropout_keep", dtypes, prepare_keep);
}

}  // namespace tandem::kernels::gpu
