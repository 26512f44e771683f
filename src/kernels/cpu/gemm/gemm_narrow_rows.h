/// The narrow product with lanes along n: few rows, a short k, or columns enough to fill the lanes.
/// No padding and no masks: of two vectors that do not fill, the second overlaps the first.
#if defined(TANDEM_KERNELS_CPU_GEMM_NARROW_ROWS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_GEMM_NARROW_ROWS_H
#undef TANDEM_KERNELS_CPU_GEMM_NARROW_ROWS_H
#else
#define TANDEM_KERNELS_CPU_GEMM_NARROW_ROWS_H
#endif

#include <algorithm>

#include "kernels/cpu/gemm/gemm_narrow.h"
#include "kernels/cpu/gemm/gemm_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

/// B as k rows of n, whichever way it lies: transposed B is copied to `packed`.
template <class T>
const T* rows_of_b(const GemmShape& s, const T* b, T* packed, int64_t* stride) {
  *stride = s.transpose_b ? s.n : s.ldb;
  if (!s.transpose_b) return b;
  for (int64_t j = 0; j < s.n; ++j) {
    for (int64_t p = 0; p < s.k; ++p) packed[p * s.n + j] = b[j * s.ldb + p];
  }
  return packed;
}

template <class T>
struct RowsPart {
  int64_t m, k;
  const T* a;
  int64_t a_row, a_depth;  // Distance in A to the next of m, of k.
  const T* b;
  int64_t ldb;
  T* c;
  int64_t ldc;
  int64_t overlap;  // Where the second vector of the columns begins.
};

template <class Tag, int kRows, int kVectors>
HWY_INLINE void rows_tile(Tag d, const RowsPart<hn::TFromD<Tag>>& part, int64_t row) {
  using T = hn::TFromD<Tag>;
  hn::Vec<Tag> sum[kRows][kVectors];
  TANDEM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TANDEM_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  const T* HWY_RESTRICT a = part.a + row * part.a_row;
  const T* HWY_RESTRICT b = part.b;
  for (int64_t p = 0; p < part.k; ++p, a += part.a_depth, b += part.ldb) {
    hn::Vec<Tag> columns[kVectors];
    TANDEM_UNROLL
    for (int v = 0; v < kVectors; ++v) columns[v] = in_register(hn::LoadU(d, b + v * part.overlap));
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, a[r * part.a_row]);
      TANDEM_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(factor, columns[v], sum[r][v]);
    }
  }
  TANDEM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TANDEM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], d, part.c + (row + r) * part.ldc + v * part.overlap);
    }
  }
}

/// Tiles of kRows; the last one overlaps the one before it.
template <class Tag, int kVectors>
struct RowsKernel {
  template <int kRows>
  struct Of {
    static HWY_NOINLINE void run(const RowsPart<hn::TFromD<Tag>>& part) {
      for (int64_t i = 0; i < part.m; i += kRows) {
        rows_tile<Tag, kRows, kVectors>(Tag(), part, std::min(i, part.m - kRows));
      }
    }
  };
};

template <class Tag, int kVectors>
HWY_INLINE void run_rows(const RowsPart<hn::TFromD<Tag>>& part) {
  if constexpr (hn::MaxLanes(Tag()) == hn::MaxLanes(hn::ScalableTag<hn::TFromD<Tag>>())) {
    run_with_width<RowsKernel<Tag, kVectors>::template Of>(panel_width(part.m), part);
  } else if (part.m >= 4) {  // Shorter vectors are rare here; two sizes of tile will do.
    RowsKernel<Tag, kVectors>::template Of<4>::run(part);
  } else {
    RowsKernel<Tag, kVectors>::template Of<1>::run(part);
  }
}

/// `width` columns with the longest vectors that they fill, one or two of them.
template <int kLongest, class T>
HWY_INLINE void rows_of_width(int64_t width, RowsPart<T> part) {
  if constexpr (kLongest > 1) {
    if (width < kLongest) return rows_of_width<kLongest / 2>(width, part);
  }
  using Tag = hn::CappedTag<T, kLongest>;
  part.overlap = width - kLongest;
  if (width == kLongest) {
    run_rows<Tag, 1>(part);
  } else {
    run_rows<Tag, 2>(part);
  }
}

template <class T>
void rows(const GemmShape& s, const T* a, const T* b, T* c, T* workspace) {
  constexpr int kLongest = hn::MaxLanes(hn::ScalableTag<T>());
  RowsPart<T> part{};
  part.m = s.m;
  part.k = s.k;
  part.a = a;
  part.a_row = s.transpose_a ? 1 : s.lda;
  part.a_depth = s.transpose_a ? s.lda : 1;
  part.b = rows_of_b(s, b, workspace, &part.ldb);
  part.c = c;
  part.ldc = s.ldc;
  constexpr int64_t kWidest = 2 * int64_t{kLongest};
  for (int64_t j = 0; j < s.n; j += kWidest) {
    const int64_t width = std::min(s.n - j, kWidest);
    rows_of_width<kLongest>(width, part);
    part.b += width;
    part.c += width;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
