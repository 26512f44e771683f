// Rows put into an order. The order is drawn by random_permutation, in which each exchange follows
// from those before it: it has no kernel here.
#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {
namespace {

// Row i of y is row order[i] of x, or the other way round. An order names each row once; nothing
// that names none is followed.
constexpr const char* kPermute = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 rows, i64 inner, i64 inverse) {
  const GLOBAL T* x = AT(T, 0);
  const GLOBAL i64* order = AT(i64, 1);
  GLOBAL T* y = AT(T, 2);
#ifdef SERIAL
  EACH(row, rows) {
    const i64 other = order[row];
    if (other >= 0 && other < rows) {
      const GLOBAL T* s = x + (inverse ? row : other) * inner;
      GLOBAL T* t = y + (inverse ? other : row) * inner;
      INDEPENDENT for (i64 j = 0; j < inner; ++j) t[j] = s[j];
    }
  }
#else
  EACH(i, rows * inner) {
    const i64 row = i / inner;
    const i64 other = order[row];
    const i64 j = other * inner + i - row * inner;
    if (other >= 0 && other < rows) y[inverse ? j : i] = x[inverse ? i : j];
  }
#endif
}
)";

ExecutablePtr prepare_permute_rows(const Signature& s, const Device& device) {
  const auto& [dtype, shape] = s.outputs[0];
  const Kernel kernel(device, {.name = "permute_rows", .words = word_of(dtype), .body = kPermute});
  const RowSplit split(shape);
  return op::executable([kernel, split, count = shape.total_extent(),
                         inverse = s.attrs.get<bool>("inverse")](const Launch& launch) {
    if (count == 0) return;
    Call(launch, kernel)
        .in(0)
        .in(1)
        .out(0)
        .whole(split.rows)
        .whole(split.per_row)
        .whole(inverse ? 1 : 0)
        .each(count);
  });
}

}  // namespace

void register_shuffle(op::BackendKernels& kernels) {
  add_kernel(kernels, "permute_rows", all_dtypes(), prepare_permute_rows);
}

}  // namespace tandem::kernels::gpu
