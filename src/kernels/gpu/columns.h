/// Kernels that walk down the rows of a tensor [outer, rows, inner], with one result, or line of
/// results, for each column. A CPU's item takes several columns that lie side by side, which are
/// vectors then; a GPU's item takes one, and its neighbours those beside it, so that they read
/// memory together. Both are one text, with COLUMN_WIDTH columns for an item.
///
/// Few columns of many rows leave a device idle. Their rows are therefore cut into parts, each
/// reduced by items of its own into workspace; a second call joins the parts, always in one order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {

/// | word | meaning |
/// |---|---|
/// | COLUMN_TASKS(outer, inner) | how many items' worth of columns there are |
/// | OUTER_OF(task, inner), COLUMN_OF(task, inner) | where a task's first column is |
/// | COLUMNS_FROM(column, inner) | how many columns it has from there, at most COLUMN_WIDTH |
/// | WIDE(l, n) | a loop over the n columns of an item |
/// | PART_ROWS(part, parts, rows) | how many rows a part has |
/// | PART_ROW(k, part, parts, rows) | which row its k-th is |
inline constexpr std::string_view kColumns = R"(
#ifdef SERIAL
#define COLUMN_WIDTH 64
#define COLUMNS_FROM(column, inner) ((int)((inner) - (column) < COLUMN_WIDTH ? (inner) - (column) : COLUMN_WIDTH))
#define PART_ROWS(part, parts, rows) ((rows) * ((part) + 1) / (parts) - (rows) * (part) / (parts))
#define PART_ROW(k, part, parts, rows) ((rows) * (part) / (parts) + (k))
#else
#define COLUMN_WIDTH 1
#define COLUMNS_FROM(column, inner) 1
#define PART_ROWS(part, parts, rows) (((rows) - (part) + (parts) - 1) / (parts))
#define PART_ROW(k, part, parts, rows) ((part) + (k) * (parts))
#endif
#define COLUMN_CHUNKS(inner) (((inner) + COLUMN_WIDTH - 1) / COLUMN_WIDTH)
#define COLUMN_TASKS(outer, inner) ((outer) * COLUMN_CHUNKS(inner))
#define OUTER_OF(task, inner) ((task) / COLUMN_CHUNKS(inner))
#define COLUMN_OF(task, inner) ((task) % COLUMN_CHUNKS(inner) * COLUMN_WIDTH)
#define WIDE(l, n) for (int l = 0; l < (n); ++l)
)";

/// The shape of such a call.
struct Columns {
  int64_t outer = 1;
  int64_t rows = 1;
  int64_t inner = 1;

  int64_t count() const { return outer * inner; }

  /// How many parts the rows of a reduction are cut into.
  int64_t parts(const Kernel& kernel) const {
    const int64_t units = kernel.device().units;
    if (kernel.is_serial()) {
      constexpr int64_t kWorthAPart = 16 << 10;
      const int64_t wanted = tasks() == 0 ? 1 : 4 * units / tasks();
      return std::max<int64_t>(1, std::min({wanted, rows / 8, rows * count() / kWorthAPart}));
    }
    constexpr int64_t kItemsPerUnit = 1024;
    constexpr int64_t kFewestRows = 16;
    const int64_t wanted = count() == 0 ? 1 : kItemsPerUnit * units / count();
    return std::max<int64_t>(1, std::min(wanted, rows / kFewestRows));
  }

  void issue(Call& call, const Kernel& kernel, int64_t parts = 1) const {
    if (!kernel.is_serial()) return call.each(count() * parts);
    call.rows(tasks() * parts, rows / parts * std::min(inner, kWidth));
  }

 private:
  static constexpr int64_t kWidth = 64;  // COLUMN_WIDTH of the serial form.

  int64_t tasks() const { return outer * ((inner + kWidth - 1) / kWidth); }
};

}  // namespace tandem::kernels::gpu
