// cumsum: sums along an axis, from either end, with or without the element itself. Items walk down
// columns, or take lines: a group of a GPU runs of as many elements as it has items.
#include "kernels/gpu/axis_lines.h"

namespace tandem::kernels::gpu {
namespace {

constexpr const char* kColumnText = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 outer, i64 length, i64 inner, i64 exclusive, i64 reverse) {
  EACH(t, COLUMN_TASKS(outer, inner)) {
    const i64 first = COLUMN_OF(t, inner);
    const int n = COLUMNS_FROM(first, inner);
    const i64 at = (OUTER_OF(t, inner) * length + (reverse ? length - 1 : 0)) * inner + first;
    const i64 step = reverse ? -inner : inner;
    const GLOBAL T* x = AT(const T, 0) + at;
    GLOBAL T* out = AT(T, 1) + at;
    T sum[COLUMN_WIDTH];
    T before[COLUMN_WIDTH];
    WIDE(l, n) sum[l] = 0;
    for (i64 i = 0; i < length; ++i) {
      WIDE(l, n) before[l] = sum[l];
      WIDE(l, n) sum[l] += x[i * step + l];
      if (exclusive) {
        WIDE(l, n) out[i * step + l] = before[l];
      } else {
        WIDE(l, n) out[i * step + l] = sum[l];
      }
    }
  }
}
)";

/// Hillis and Steele: Data parallel algorithms.
constexpr const char* kLines = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 outer, i64 length, i64 inner, i64 exclusive, i64 reverse) {
#ifndef SERIAL
  LOCAL T sums[2 * GROUP_SIZE];
#endif
  ROWS(line, outer * inner) {
    const i64 at = (line / inner * length + (reverse ? length - 1 : 0)) * inner + line % inner;
    const i64 step = reverse ? -inner : inner;
    const GLOBAL T* x = AT(const T, 0) + at;
    GLOBAL T* out = AT(T, 1) + at;
    T before = 0;
#ifdef SERIAL
    for (i64 i = 0; i < length; ++i) {
      const T own = before + x[i * step];
      out[i * step] = exclusive ? before : own;
      before = own;
    }
#else
    for (i64 block = 0; block < length; block += GROUP_SIZE) {
      const i64 i = block + LID();
      const T v = i < length ? x[i * step] : 0;
      int side = 0;
      sums[LID()] = v;
      for (int w = 1; w < GROUP_SIZE; w *= 2) {
        BARRIER();
        const int own = side * GROUP_SIZE + LID();
        side = 1 - side;
        sums[side * GROUP_SIZE + LID()] = sums[own] + (LID() < w ? 0 : sums[own - w]);
      }
      BARRIER();
      const T own = before + sums[side * GROUP_SIZE + LID()];
      const T others = before + (LID() == 0 ? 0 : sums[side * GROUP_SIZE + LID() - 1]);
      if (i < length) out[i * step] = exclusive ? others : own;
      before += sums[side * GROUP_SIZE + GROUP_SIZE - 1];
      BARRIER();
    }
#endif
  }
}
)";

/// Rather than columns: single ones, and on a GPU long ones that are too few for an item each.
bool by_lines(const AxisLines& lines, const Device& device) {
  constexpr int64_t kLong = 64;
  constexpr int64_t kFew = 256;
  if (is_serial(device)) return lines.inner == 1;
  return lines.length >= kLong && (lines.inner == 1 || lines.count() < kFew);
}

ExecutablePtr prepare_cumsum(const Signature& s, const Device& device) {
  const AxisLines lines(s);
  // Whole numbers wrap round, which only unsigned ones may.
  const DType dtype = s.inputs[0].dtype;
  const char* type = dtype == DType::int32   ? "u32"
                     : dtype == DType::int64 ? "u64"
                                             : type_name(dtype);
  const bool takes_lines = by_lines(lines, device);
  const Kernel kernel(device, {.name = "cumsum",
                               .words = {{"T", type}},
                               .functions = {kColumns},
                               .body = takes_lines ? kLines : kColumnText});
  const bool exclusive = s.attrs.get<bool>("exclusive");
  const bool reverse = s.attrs.get<bool>("reverse");
  return op::executable([=](const Launch& launch) {
    if (lines.count() * lines.length == 0) return;
    Call call(launch, kernel);
    call.in(0).out(0).whole(lines.outer).whole(lines.length).whole(lines.inner);
    call.whole(exclusive ? 1 : 0).whole(reverse ? 1 : 0);
    if (takes_lines) return call.rows(lines.count(), lines.length);
    lines.columns().issue(call, kernel);
  });
}

}  // namespace

void register_cumulative(op::BackendKernels& kernels) {
  using enum DType;
  add_kernel(kernels, "cumsum", {float32, float64, int32, int64}, prepare_cumsum);
}

}  // namespace tandem::kernels::gpu
