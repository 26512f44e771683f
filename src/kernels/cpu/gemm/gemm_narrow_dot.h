/// The narrow product with lanes along k, for A as it is and long rows. B is packed column by
/// column, a panel of columns at a time, and the lanes of each sum are added up at the end.
#if defined(TANDEM_KERNELS_CPU_GEMM_NARROW_DOT_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_GEMM_NARROW_DOT_H
#undef TANDEM_KERNELS_CPU_GEMM_NARROW_DOT_H
#else
#define TANDEM_KERNELS_CPU_GEMM_NARROW_DOT_H
#endif

#include <algorithm>

#include "kernels/cpu/gemm/gemm_narrow.h"
#include "kernels/cpu/gemm/gemm_simd.h"

#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
struct DotPart {
  int64_t m, k;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t b_depth, b_column;  // Distance in B to the next of k, of n.
  T* c;
  int64_t ldc;
  bool add;   // Adds to what C holds from an earlier part of k.
  T* packed;  // [k / lanes][width][lanes]
};

/// How many lanes of the last vector of a row were there in the one before it: where k does not
/// divide, the last vector ends with the row.
template <class T>
HWY_INLINE int64_t lanes_seen(int64_t k) {
  return (kLanes<T> - k % kLanes<T>) % kLanes<T>;
}

template <int kWidth, class T>
HWY_INLINE void pack_vectors(const DotPart<T>& part, int64_t begin, int64_t seen,
                             T* HWY_RESTRICT to) {
  for (int j = 0; j < kWidth; ++j) {
    for (int64_t lane = 0; lane < kLanes<T>; ++lane) {
      const T* from = part.b + (begin + lane) * part.b_depth + j * part.b_column;
      to[j * kLanes<T> + lane] = lane < seen ? T{0} : *from;
    }
  }
}

/// The same for whole vectors of B as it is, by squares.
template <int kWidth, class T>
HWY_INLINE void pack_squares(const T* HWY_RESTRICT from, int64_t ldb, T* HWY_RESTRICT to) {
  const D<T> d;
  TANDEM_UNROLL
  for (int next = 0; next < kWidth; next += kBlock<T>) {
    const int j = std::min(next, kWidth - kBlock<T>);
    V<T> v[kBlock<T>];
    TANDEM_UNROLL
    for (int i = 0; i < kBlock<T>; ++i) v[i] = load_blocks(d, from + i * ldb + j, kBlock<T> * ldb);
    transpose_blocks(d, v);
    TANDEM_UNROLL
    for (int i = 0; i < kBlock<T>; ++i) hn::StoreU(v[i], d, to + (j + i) * kLanes<T>);
  }
}

template <int kWidth, class T>
HWY_INLINE void pack_panel(const DotPart<T>& part) {
  T* to = part.packed;
  int64_t p = 0;
  for (; p + kLanes<T> <= part.k; p += kLanes<T>, to += kWidth * kLanes<T>) {
    if constexpr (kWidth >= kBlock<T>) {
      if (part.b_column == 1) {
        pack_squares<kWidth>(part.b + p * part.b_depth, part.b_depth, to);
        continue;
      }
    }
    pack_vectors<kWidth>(part, p, 0, to);
  }
  if (p < part.k) pack_vectors<kWidth>(part, part.k - kLanes<T>, lanes_seen<T>(part.k), to);
}

/// The sums of a tile lie row by row, and are as many as fill whole squares.
template <class T>
constexpr int whole_squares(int sums) {
  constexpr int kSide = kBlock<T>;
  return (sums + kSide - 1) / kSide * kSide;
}

template <int kRows, int kWidth, class T, int kCount>
HWY_INLINE void add_products(const V<T> (&rows)[kRows], const T* HWY_RESTRICT b,
                             V<T> (&sum)[kCount]) {
  const D<T> d;
  TANDEM_UNROLL
  for (int j = 0; j < kWidth; ++j) {
    const V<T> column = in_register(hn::LoadU(d, b + j * kLanes<T>));
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sum[r * kWidth + j] = hn::MulAdd(rows[r], column, sum[r * kWidth + j]);
    }
  }
}

template <int kRows, int kWidth, class T, int kCount>
HWY_INLINE void store_sums(const DotPart<T>& part, int64_t row, const V<T> (&sum)[kCount]) {
  HWY_ALIGN T total[kCount];
  TANDEM_UNROLL
  for (int i = 0; i < kCount; i += kBlock<T>) {
    V<T> some[kBlock<T>];
    TANDEM_UNROLL
    for (int s = 0; s < kBlock<T>; ++s) some[s] = sum[i + s];
    hn::StoreU(sums_of<T>(some), hn::FixedTag<T, kBlock<T>>(), total + i);
  }
  TANDEM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TANDEM_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      T& out = part.c[(row + r) * part.ldc + j];
      out = part.add ? out + total[r * kWidth + j] : total[r * kWidth + j];
    }
  }
}

template <int kRows, int kWidth, class T>
HWY_INLINE void dot_tile(const DotPart<T>& part, int64_t row) {
  const D<T> d;
  V<T> sum[whole_squares<T>(kRows * kWidth)];
  TANDEM_UNROLL
  for (auto& s : sum) s = hn::Zero(d);

  const T* HWY_RESTRICT a = part.a + row * part.lda;
  const T* HWY_RESTRICT b = part.packed;
  V<T> rows[kRows];
  int64_t p = 0;
  for (; p + kLanes<T> <= part.k; p += kLanes<T>, b += kWidth * kLanes<T>) {
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) rows[r] = hn::LoadU(d, a + r * part.lda + p);
    add_products<kRows, kWidth, T>(rows, b, sum);
  }
  if (p < part.k) {
    // Zero here as in the packed panel, for a product of zero and infinity is not zero.
    const auto seen = hn::FirstN(d, static_cast<size_t>(lanes_seen<T>(part.k)));
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      rows[r] = hn::IfThenZeroElse(seen, hn::LoadU(d, a + r * part.lda + part.k - kLanes<T>));
    }
    add_products<kRows, kWidth, T>(rows, b, sum);
  }
  store_sums<kRows, kWidth>(part, row, sum);
}

template <int kWidth>
struct DotKernel {
  template <class T>
  static HWY_NOINLINE void run(const DotPart<T>& part) {
    constexpr int kRows = kAcross[kWidth];
    pack_panel<kWidth>(part);
    int64_t i = 0;
    for (; i + kRows <= part.m; i += kRows) dot_tile<kRows, kWidth>(part, i);
    for (; i < part.m; ++i) dot_tile<1, kWidth>(part, i);
  }
};

/// The next part of k: `depth`, or two halves at the end, so that none is shorter than a vector.
HWY_INLINE int64_t next_depth(int64_t left, int64_t depth) {
  if (left <= depth) return left;
  return left >= 2 * depth ? depth : (left / 2 + 15) / 16 * 16;
}

template <class T>
void dot(const GemmShape& s, int64_t depth, const T* a, const T* b, T* c, T* workspace) {
  const int64_t b_depth = s.transpose_b ? 1 : s.ldb;
  const int64_t b_column = s.transpose_b ? s.ldb : 1;
  for (int64_t p = 0; p < s.k;) {
    const int64_t k = next_depth(s.k - p, depth);
    for (int64_t j = 0; j < s.n;) {
      const int64_t width = panel_width(s.n - j);
      run_with_width<DotKernel>(
          width, DotPart<T>{s.m, k, a + p, s.lda, b + p * b_depth + j * b_column, b_depth, b_column,
                            c + j, s.ldc, p > 0, workspace});
      j += width;
    }
    p += k;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET != HWY_SCALAR
#endif
