// Products with a packed right side: its columns in panels two vectors wide, each panel's rows one
// after another. Included anew for each instruction set, after hwy/highway.h; therefore the guard
// that toggles.
#if defined(TANDEM_KERNELS_CPU_PANELS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_PANELS_H
#undef TANDEM_KERNELS_CPU_PANELS_H
#else
#define TANDEM_KERNELS_CPU_PANELS_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/gemm/gemm_simd.h"
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
inline constexpr int64_t kPanel = 2 * hn::MaxLanes(hn::ScalableTag<T>());

/// `count` rounded up to whole panels.
template <class T>
HWY_INLINE int64_t padded(int64_t count) {
  constexpr int64_t kWidth = kPanel<T>;
  return (count + kWidth - 1) / kWidth * kWidth;
}

/// Rows far apart, which no hardware foresees.
template <class T>
HWY_INLINE void prefetch_rows(const T* from, int64_t step, int64_t rows, int64_t columns) {
  constexpr auto kLine = static_cast<int64_t>(64 / sizeof(T));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; i += kLine) hwy::Prefetch(from + row * step + i);
  }
}

/// Panels of the matrix whose rows are at `from`; beyond its columns, zeros.
template <class T>
HWY_INLINE void pack(const T* from, int64_t step, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t kAhead = 8;
  const hn::ScalableTag<T> d;
  for (int64_t row = 0; row < rows; ++row, to += kPanel<T>) {
    if (row + kAhead < rows) prefetch_rows(from + (row + kAhead) * step, step, 1, columns);
    const T* x = from + row * step;
    T* out = to;
    int64_t first = 0;
    for (; first + kPanel<T> <= columns; first += kPanel<T>, out += rows * kPanel<T>) {
      hn::StoreU(hn::LoadU(d, x + first), d, out);
      hn::StoreU(hn::LoadU(d, x + first + lanes(d)), d, out + lanes(d));
    }
    if (first == columns) continue;
    for (int64_t i = 0; i < kPanel<T>; ++i) out[i] = first + i < columns ? x[first + i] : T(0);
  }
}

/// One panel of a transposed matrix, whose columns are the rows at `from`.
template <class T>
HWY_INLINE void pack_columns(const T* from, int64_t step, int64_t rows, int64_t columns, T* to) {
  int64_t row = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kSquare = kBlock<T>;
  for (; columns == kPanel<T> && row + kSquare <= rows; row += kSquare) {
    for (int64_t half = 0; half < kPanel<T>; half += kLanes<T>) {
      V<T> v[kSquare];
      TANDEM_UNROLL
      for (int64_t i = 0; i < kSquare; ++i) {
        v[i] = load_blocks(D<T>(), from + (half + i) * step + row, kSquare * step);
      }
      transpose_blocks(D<T>(), v);
      TANDEM_UNROLL
      for (int64_t i = 0; i < kSquare; ++i) {
        hn::StoreU(v[i], D<T>(), to + (row + i) * kPanel<T> + half);
      }
    }
  }
#endif
  for (; row < rows; ++row) {
    for (int64_t i = 0; i < kPanel<T>; ++i) {
      to[row * kPanel<T> + i] = i < columns ? from[i * step + row] : T(0);
    }
  }
}

/// Panels of the transposed matrix: its columns are the rows at `from`, each of `rows` elements.
template <class T>
HWY_INLINE void pack_transposed(const T* from, int64_t step, int64_t rows, int64_t columns, T* to) {
  for (int64_t first = 0; first < columns; first += kPanel<T>, to += rows * kPanel<T>) {
    const int64_t count = std::min(kPanel<T>, columns - first);
    const int64_t ahead = std::min(columns - first - count, kPanel<T>);
    prefetch_rows(from + (first + count) * step, step, ahead, rows);
    pack_columns(from + first * step, step, rows, count, to);
  }
}

/// C = A B, or C += A B. B has `depth` rows within panels that lie `panel_step` apart. C is written
/// in whole panels. Where A or C is a triangle, row i needs only the terms and columns that its
/// limits leave.
template <class T>
struct PanelProduct {
  static constexpr int64_t kFar = int64_t{1} << 40;

  int64_t rows, columns, depth;
  const T* a;
  int64_t a_row, a_depth;  // Distance in A to the next row, to the next term.
  const T* b;
  int64_t panel_step;
  T* c;
  int64_t c_row;
  bool add;
  int64_t first_term = -kFar;  // Row i has no terms before i + first_term,
  int64_t last_term = kFar;    // none after i + last_term,
  int64_t last_column = kFar;  // and no columns after i + last_column.
};

template <int kRows, class T>
HWY_INLINE void panel_tile(const PanelProduct<T>& p, int64_t row) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = kPanel<T> / 2;
  const int64_t last = row + kRows - 1;
  const int64_t begin = std::clamp(row + p.first_term, int64_t{0}, p.depth);
  const int64_t end = std::clamp(last + p.last_term + 1, begin, p.depth);
  const int64_t columns = std::min(p.columns, last + p.last_column + 1);
  const T* b_panel = p.b + begin * kPanel<T>;
  T* c = p.c + row * p.c_row;
  for (int64_t column = 0; column < columns; column += kPanel<T>, c += kPanel<T>) {
    V sum[kRows][2];
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sum[r][0] = p.add ? hn::LoadU(d, c + r * p.c_row) : hn::Zero(d);
      sum[r][1] = p.add ? hn::LoadU(d, c + r * p.c_row + kLanes) : hn::Zero(d);
    }
    const T* HWY_RESTRICT a = p.a + row * p.a_row + begin * p.a_depth;
    const T* HWY_RESTRICT b = b_panel;
    for (int64_t term = begin; term < end; ++term, a += p.a_depth, b += kPanel<T>) {
      const V b0 = in_register(hn::LoadU(d, b));
      const V b1 = in_register(hn::LoadU(d, b + kLanes));
      TANDEM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const V factor = hn::Set(d, a[r * p.a_row]);
        sum[r][0] = hn::MulAdd(factor, b0, sum[r][0]);
        sum[r][1] = hn::MulAdd(factor, b1, sum[r][1]);
      }
    }
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      hn::StoreU(sum[r][0], d, c + r * p.c_row);
      hn::StoreU(sum[r][1], d, c + r * p.c_row + kLanes);
    }
    b_panel += p.panel_step;
  }
}

/// Tiles of 6 rows, which fill the registers of AVX2, or of 8, for which AVX-512 has room; then of
/// what is left.
template <class T>
HWY_NOINLINE void multiply(const PanelProduct<T>& p) {
  constexpr int kRows = HWY_MAX_BYTES >= 64 ? 8 : 6;
  int64_t row = 0;
  for (; row + kRows <= p.rows; row += kRows) panel_tile<kRows>(p, row);
  if (row + 4 <= p.rows) {
    panel_tile<4>(p, row);
    row += 4;
  }
  for (; row < p.rows; ++row) panel_tile<1>(p, row);
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
