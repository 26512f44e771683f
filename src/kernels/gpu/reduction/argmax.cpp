// argmax and argmin: the place of the first largest or smallest number along an axis. NaN is never
// chosen while there is a number; where there is none, the first element is.
#include <fmt/format.h>

#include <string>

#include "kernels/gpu/axis_lines.h"
#include "tandem/error.h"

namespace tandem::kernels::gpu {
namespace {

// T: elements. C: what they are compared as. BETTER(a, b): a is chosen rather than b.

/// First what the best is worth, and then where it stands first.
constexpr const char* kRows = R"(
#define BEST(a, b) (BETTER(a, b) || (b) != (b) ? (a) : (b))
KERNEL NAME(MEMORY(0), MEMORY(1), i64 rows, i64 length) {
  SCRATCH(C)
#ifndef SERIAL
  LOCAL i64 places[GROUP_SIZE];
#endif
  ROWS(r, rows) {
    const GLOBAL T* x = AT(const T, 0) + r * length;
    LANES_OF(C, best, x[0])
    LANEWISE(C, v, x[c], c, l, length, best[l] = BEST(v, best[l]);)
    JOIN(C, best, BEST)
    const C wanted = best[0];
#ifdef SERIAL
    i64 place = 0;
    if (wanted == wanted) while (x[place] != wanted) ++place;
#else
    i64 place = length;
    for (i64 c = LID(); c < length && place == length; c += LSIZE()) {
      if (x[c] == wanted) place = c;
    }
    places[LID()] = place;
    for (int w = GROUP_SIZE / 2; w > 0; w /= 2) {
      BARRIER();
      if (LID() < w && places[LID() + w] < places[LID()]) places[LID()] = places[LID() + w];
    }
    BARRIER();
    place = places[0] == length ? 0 : places[0];
    BARRIER();
#endif
    ONCE AT(i64, 1)[r] = place;
  }
}
#undef BEST
)";

constexpr const char* kColumnText = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 outer, i64 length, i64 inner) {
  EACH(t, COLUMN_TASKS(outer, inner)) {
    const i64 first = COLUMN_OF(t, inner);
    const int n = COLUMNS_FROM(first, inner);
    const GLOBAL T* x = AT(const T, 0) + OUTER_OF(t, inner) * length * inner + first;
    C best[COLUMN_WIDTH];
    i64 place[COLUMN_WIDTH];
    WIDE(l, n) { best[l] = x[l]; place[l] = 0; }
    for (i64 i = 1; i < length; ++i) {
      WIDE(l, n) {
        const C v = x[i * inner + l];
        const int better = BETTER(v, best[l]) || (best[l] != best[l] && v == v);
        best[l] = better ? v : best[l];
        place[l] = better ? i : place[l];
      }
    }
    GLOBAL i64* out = AT(i64, 1) + OUTER_OF(t, inner) * inner + first;
    WIDE(l, n) out[l] = place[l];
  }
}
)";

ExecutablePtr prepare_best(const char* better, const Signature& s, const Device& device) {
  const AxisLines lines(s);
  // The size is known only now where the axis is that of the rows.
  if (lines.length == 0) throw InvalidArgument(fmt::format("{}: a batch of no rows", s.op->name));
  const DType dtype = s.inputs[0].dtype;
  const Words words = {{"T", type_name(dtype)},
                       {"C", dtype == DType::uint8 ? "i32" : type_name(dtype)},
                       {"BETTER(a, b)", better}};
  const bool by_rows = lines.are_rows(device);
  const Kernel kernel(device, {.name = s.op->name,
                               .words = words,
                               .functions = {kColumns},
                               .body = by_rows ? kRows : kColumnText});
  return op::executable([=](const Launch& launch) {
    if (lines.count() == 0) return;
    Call call(launch, kernel);
    call.in(0).out(0).whole(lines.outer).whole(lines.length);
    if (by_rows) return call.rows(lines.outer, lines.length);
    lines.columns().issue(call.whole(lines.inner), kernel);
  });
}

}  // namespace

void register_argmax(op::BackendKernels& kernels) {
  using enum DType;
  const auto best = [](const char* better) {
    return [better](const Signature& s, const Device& device) {
      return prepare_best(better, s, device);
    };
  };
  const std::vector<DType> ordered = {float32, float64, int32, int64, uint8};
  add_kernel(kernels, "argmax", ordered, best("((a) > (b))"));
  add_kernel(kernels, "argmin", ordered, best("((a) < (b))"));
}

}  // namespace tandem::kernels::gpu
