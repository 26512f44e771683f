// A line along the axis either lies side by side, or many of them do; see columns.h. The result may
// lie where the first input lies.
#include <string>

#include "kernels/gpu/axis_lines.h"
#include "kernels/gpu/loss/softmax_text.h"

namespace tandem::kernels::gpu {
namespace {

// In the rows' texts x is the first input, z the second (that of softmax has none), y the result,
// all at the beginning of a row of n elements.

constexpr const char* kRows = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 rows, i64 n) {
  SCRATCH(T)
  ROWS(r, rows) {
    const GLOBAL T* x = AT(const T, 0) + r * n;
    const GLOBAL T* z = AT(const T, 1) + r * n;
    GLOBAL T* y = AT(T, 2) + r * n;
    LINE
  }
}
)";

constexpr const char* kSoftmaxRow = R"( \
    MAXIMUM_OF(x, n, most) \
    LANES_OF(T, sum, 0) \
    LANEWISE(T, e, exp(x[c] - most), c, l, n, y[c] = e; sum[l] += e;) \
    JOIN(T, sum, SUM_OF) \
    const T factor = 1 / sum[0]; \
    LANEWISE(T, v, y[c] * factor, c, l, n, y[c] = v;))";

constexpr const char* kLogSoftmaxRow = R"( \
    MAXIMUM_OF(x, n, most) \
    LANES_OF(T, sum, 0) \
    LANEWISE(T, e, exp(x[c] - most), c, l, n, sum[l] += e;) \
    JOIN(T, sum, SUM_OF) \
    const T log_sum = log(sum[0]); \
    LANEWISE(T, v, (x[c] - most) - log_sum, c, l, n, y[c] = v;))";

constexpr const char* kSoftmaxGradRow = R"( \
    LANES_OF(T, sum, 0) \
    LANEWISE(T, v, x[c] * z[c], c, l, n, sum[l] += v;) \
    JOIN(T, sum, SUM_OF) \
    const T total = sum[0]; \
    LANEWISE(T, v, z[c] * (x[c] - total), c, l, n, y[c] = v;))";

constexpr const char* kLogSoftmaxGradRow = R"( \
    LANES_OF(T, sum, 0) \
    LANEWISE(T, v, x[c], c, l, n, sum[l] += v;) \
    JOIN(T, sum, SUM_OF) \
    const T total = sum[0]; \
    LANEWISE(T, v, x[c] - exp(z[c]) * total, c, l, n, y[c] = v;))";

// In the columns' texts a row of `n` columns begins at i.

constexpr const char* kColumnText = R"(
#define DOWN for (i64 i = 0; i < length * inner; i += inner)
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 outer, i64 length, i64 inner) {
  EACH(t, COLUMN_TASKS(outer, inner)) {
    const i64 first = COLUMN_OF(t, inner);
    const int n = COLUMNS_FROM(first, inner);
    const i64 at = OUTER_OF(t, inner) * length * inner + first;
    const GLOBAL T* x = AT(const T, 0) + at;
    const GLOBAL T* z = AT(const T, 1) + at;
    GLOBAL T* y = AT(T, 2) + at;
    T most[COLUMN_WIDTH];
    T sum[COLUMN_WIDTH];
    T v[COLUMN_WIDTH];
    WIDE(l, n) { most[l] = -INFINITY; sum[l] = 0; }
    LINE
  }
}
#undef DOWN
)";

constexpr const char* kSoftmaxColumns = R"( \
    DOWN WIDE(l, n) most[l] = GREATER_OF(x[i + l], most[l]); \
    DOWN { \
      WIDE(l, n) v[l] = exp(x[i + l] - most[l]); \
      WIDE(l, n) { y[i + l] = v[l]; sum[l] += v[l]; } \
    } \
    WIDE(l, n) sum[l] = 1 / sum[l]; \
    DOWN WIDE(l, n) y[i + l] *= sum[l];)";

constexpr const char* kLogSoftmaxColumns = R"( \
    DOWN WIDE(l, n) most[l] = GREATER_OF(x[i + l], most[l]); \
    DOWN WIDE(l, n) sum[l] += exp(x[i + l] - most[l]); \
    WIDE(l, n) sum[l] = log(sum[l]); \
    DOWN { \
      WIDE(l, n) v[l] = (x[i + l] - most[l]) - sum[l]; \
      WIDE(l, n) y[i + l] = v[l]; \
    })";

constexpr const char* kSoftmaxGradColumns = R"( \
    DOWN WIDE(l, n) sum[l] += x[i + l] * z[i + l]; \
    DOWN { \
      WIDE(l, n) v[l] = z[i + l] * (x[i + l] - sum[l]); \
      WIDE(l, n) y[i + l] = v[l]; \
    })";

constexpr const char* kLogSoftmaxGradColumns = R"( \
    DOWN WIDE(l, n) sum[l] += x[i + l]; \
    DOWN { \
      WIDE(l, n) v[l] = x[i + l] - exp(z[i + l]) * sum[l]; \
      WIDE(l, n) y[i + l] = v[l]; \
    })";

auto prepare_with(const char* row, const char* columns) {
  return [row, columns](const Signature& s, const Device& device) {
    const AxisLines lines(s);
    const bool by_rows = lines.are_rows(device);
    Words words = types_of(s.inputs[0].dtype);
    words.emplace_back("LINE", by_rows ? row : columns);
    const Kernel kernel(device, {.name = s.op->name,
                                 .words = words,
                                 .functions = {kColumns, kSoftmaxWords},
                                 .body = by_rows ? kRows : kColumnText});
    const int last = static_cast<int>(s.inputs.size()) - 1;
    return op::executable([=](const Launch& launch) {
      if (lines.count() * lines.length == 0) return;
      Call call(launch, kernel);
      call.in(0).in(last).out(0).whole(lines.outer).whole(lines.length);
      if (by_rows) return call.rows(lines.outer, lines.length);
      lines.columns().issue(call.whole(lines.inner), kernel);
    });
  };
}

}  // namespace

void register_softmax(op::BackendKernels& kernels) {
  const auto add = [&](const char* name, const char* row, const char* columns) {
    add_kernel(kernels, name, {DType::float32, DType::float64}, prepare_with(row, columns));
  };
  add("softmax", kSoftmaxRow, kSoftmaxColumns);
  add("softmax_grad", kSoftmaxGradRow, kSoftmaxGradColumns);
  add("log_softmax", kLogSoftmaxRow, kLogSoftmaxColumns);
  add("log_softmax_grad", kLogSoftmaxGradRow, kLogSoftmaxGradColumns);
}

}  // namespace tandem::kernels::gpu
