/// The narrow product with lanes along m, for a transposed A of which many columns are wanted: they
/// lie side by side. Tiles of C come out transposed and are turned in registers.
#if defined(TANDEM_KERNELS_CPU_GEMM_NARROW_COLUMNS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_GEMM_NARROW_COLUMNS_H
#undef TANDEM_KERNELS_CPU_GEMM_NARROW_COLUMNS_H
#else
#define TANDEM_KERNELS_CPU_GEMM_NARROW_COLUMNS_H
#endif

#include <hwy/cache_control.h>

#include <algorithm>

#include "kernels/cpu/gemm/gemm_narrow.h"
#include "kernels/cpu/gemm/gemm_narrow_rows.h"
#include "kernels/cpu/gemm/gemm_simd.h"

#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
struct ColumnsPart {
  int64_t m, k;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  T* c;
  int64_t ldc;
};

/// Writes one vector of rows, of which `sum` holds the columns.
template <int kWidth, int kVectors, class T>
HWY_INLINE void store_transposed(const V<T> (&sum)[kWidth][kVectors], int v, T* HWY_RESTRICT to,
                                 int64_t ldc) {
  const D<T> d;
  constexpr int kWhole = kWidth / kBlock<T> * kBlock<T>;
  TANDEM_UNROLL
  for (int j = 0; j < kWhole; j += kBlock<T>) {
    V<T> some[kBlock<T>];
    TANDEM_UNROLL
    for (int i = 0; i < kBlock<T>; ++i) some[i] = sum[j + i][v];
    transpose_blocks(d, some);
    TANDEM_UNROLL
    for (int i = 0; i < kBlock<T>; ++i) store_blocks(d, some[i], to + i * ldc + j, kBlock<T> * ldc);
  }
  TANDEM_UNROLL
  for (int j = kWhole; j < kWidth; ++j) {
    HWY_ALIGN T lanes[kLanes<T>];
    hn::Store(sum[j][v], d, lanes);
    TANDEM_UNROLL
    for (int i = 0; i < kLanes<T>; ++i) to[i * ldc + j] = lanes[i];
  }
}

template <int kVectors, int kWidth, class T>
HWY_INLINE void columns_tile(const ColumnsPart<T>& part, int64_t row) {
  const D<T> d;
  V<T> sum[kWidth][kVectors];
  TANDEM_UNROLL
  for (int j = 0; j < kWidth; ++j) {
    TANDEM_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[j][v] = hn::Zero(d);
  }
  const T* HWY_RESTRICT a = part.a + row;
  const T* HWY_RESTRICT b = part.b;
  for (int64_t p = 0; p < part.k; ++p, a += part.lda, b += part.ldb) {
    V<T> rows[kVectors];
    TANDEM_UNROLL
    for (int v = 0; v < kVectors; ++v) rows[v] = in_register(hn::LoadU(d, a + v * kLanes<T>));
    // This is for the next tile: no hardware looks ahead over rows as long as these.
    hwy::Prefetch(a + kVectors * kLanes<T>);
    TANDEM_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      const auto factor = hn::Set(d, b[j]);
      TANDEM_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[j][v] = hn::MulAdd(rows[v], factor, sum[j][v]);
    }
  }
  TANDEM_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const int64_t first = row + v * kLanes<T>;
    store_transposed(sum, v, part.c + first * part.ldc, part.ldc);
  }
}

/// How many elements of A lie before the first whose address is a multiple of a vector's size; 0
/// where that differs from row to row.
template <class T>
HWY_INLINE int64_t elements_before_aligned(const ColumnsPart<T>& part) {
  if (part.lda % kLanes<T> != 0) return 0;
  const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(part.a) / sizeof(T));
  return (kLanes<T> - beyond % kLanes<T>) % kLanes<T>;
}

/// Tiles of kVectors. The second begins where vectors are aligned, so it may overlap the first, as
/// the last does the one before it.
template <int kVectors, int kWidth, class T>
HWY_INLINE void columns_tiles(const ColumnsPart<T>& part) {
  constexpr int64_t kRows = kVectors * kLanes<T>;
  const int64_t before = elements_before_aligned(part);
  int64_t next = before == 0 ? kRows : kRows - kLanes<T> + before;
  columns_tile<kVectors, kWidth>(part, 0);
  for (; next < part.m; next += kRows) {
    columns_tile<kVectors, kWidth>(part, std::min(next, part.m - kRows));
  }
}

template <int kWidth>
struct ColumnsKernel {
  template <class T>
  static HWY_NOINLINE void run(const ColumnsPart<T>& part) {
    constexpr int kVectors = kAcross[kWidth];
    if (part.m >= kVectors * kLanes<T>) {
      columns_tiles<kVectors, kWidth>(part);
    } else {
      columns_tiles<1, kWidth>(part);
    }
  }
};

template <class T>
void columns(const GemmShape& s, const T* a, const T* b, T* c, T* workspace) {
  int64_t ldb;
  b = rows_of_b(s, b, workspace, &ldb);
  for (int64_t j = 0; j < s.n;) {
    const int64_t width = panel_width(s.n - j);
    run_with_width<ColumnsKernel>(width,
                                  ColumnsPart<T>{s.m, s.k, a, s.lda, b + j, ldb, c + j, s.ldc});
    j += width;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET != HWY_SCALAR
#endif
