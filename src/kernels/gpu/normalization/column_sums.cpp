// Like reductions by columns: where there are few columns the rows are cut into parts, which a
// second kernel joins.
#include "kernels/gpu/normalization/column_sums.h"

#include <memory>

#include "kernels/gpu/columns.h"

namespace tandem::kernels::gpu {
namespace {

constexpr const char* kSums = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), MEMORY(4), MEMORY(5), i64 rows, i64 columns,
            i64 parts) {
  const GLOBAL T* a = AT(const T, 2);
  const GLOBAL T* b = AT(const T, 3);
  const i64 tasks = COLUMN_TASKS(1, columns);
  EACH(t, tasks * parts) {
    const i64 part = t / tasks;
    const i64 first = COLUMN_OF(t % tasks, columns);
    const int n = COLUMNS_FROM(first, columns);
    const i64 own = PART_ROWS(part, parts, rows);
    double all[COLUMN_WIDTH];
    double all_products[COLUMN_WIDTH];
    T sum[COLUMN_WIDTH];
    T product[COLUMN_WIDTH];
    WIDE(l, n) { all[l] = 0; all_products[l] = 0; }
    for (i64 block = 0; block < own; block += 32) {
      WIDE(l, n) { sum[l] = 0; product[l] = 0; }
      for (i64 k = block; k < own && k < block + 32; ++k) {
        const i64 r = PART_ROW(k, part, parts, rows);
        const GLOBAL T* gs = AT(const T, 0) + r * columns + first;
        const GLOBAL T* xs = AT(const T, 1) + r * columns + first;
        WIDE(l, n) {
          const T g = gs[l];
          const T x = xs[l];
          const i64 c = first + l;
          sum[l] += g;
          product[l] += TERM;
        }
      }
      WIDE(l, n) { all[l] += sum[l]; all_products[l] += product[l]; }
    }
    GLOBAL T* sums = AT(T, 4) + part * columns + first;
    GLOBAL T* products = AT(T, 5) + part * columns + first;
    WIDE(l, n) { sums[l] = (T)all[l]; products[l] = (T)all_products[l]; }
  }
}
)";

constexpr const char* kJoin = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), i64 columns, i64 parts) {
  const GLOBAL T* sums = AT(const T, 0);
  const GLOBAL T* products = AT(const T, 1);
  EACH(c, columns) {
    T sum = 0;
    T product = 0;
    for (i64 part = 0; part < parts; ++part) {
      sum += sums[part * columns + c];
      product += products[part * columns + c];
    }
    AT(T, 2)[c] = sum;
    AT(T, 3)[c] = product;
  }
}
)";

class Sums final : public op::Executable {
 public:
  Sums(const ColumnSums& sums, const Kernel& kernel, const Kernel& join, size_t size)
      : sums_(sums),
        kernel_(kernel),
        join_(join),
        columns_{1, sums.rows, sums.columns},
        parts_(columns_.parts(kernel)),
        bytes_(static_cast<size_t>(parts_ * sums.columns) * size) {}

  size_t workspace_bytes() const override { return parts_ == 1 ? 0 : 2 * bytes_; }

  void run(const Launch& launch) const override {
    if (sums_.columns == 0) return;
    Call call(launch, kernel_);
    if (sums_.rows == 0) {
      // What has no elements need not have an address either.
      call.out(0).out(0).out(0).out(0);
    } else {
      call.in(sums_.g).in(sums_.x).in(sums_.a).in(sums_.b);
    }
    if (parts_ == 1) {
      call.out(sums_.sum).out(sums_.product);
    } else {
      call.workspace().workspace(bytes_);
    }
    call.whole(sums_.rows).whole(sums_.columns).whole(parts_);
    columns_.issue(call, kernel_, parts_);
    if (parts_ == 1) return;
    Call joining(launch, join_);
    joining.workspace().workspace(bytes_).out(sums_.sum).out(sums_.product);
    joining.whole(sums_.columns).whole(parts_).each(sums_.columns);
  }

 private:
  const ColumnSums sums_;
  const Kernel kernel_;
  const Kernel join_;
  const Columns columns_;
  const int64_t parts_;
  const size_t bytes_;  // The bytes of the parts of one sum.
};

}  // namespace

ExecutablePtr prepare_column_sums(const ColumnSums& sums, const Signature& s,
                                  const Device& device) {
  const DType dtype = s.inputs[0].dtype;
  Words words = types_of(dtype);
  words.emplace_back("TERM", sums.term);
  const Kernel kernel(device,
                      {.name = s.op->name, .words = words, .functions = {kColumns}, .body = kSums});
  const Kernel join(device, {.name = "column_sums_join", .words = types_of(dtype), .body = kJoin});
  return std::make_shared<Sums>(sums, kernel, join, size_of(dtype));
}

}  // namespace tandem::kernels::gpu
