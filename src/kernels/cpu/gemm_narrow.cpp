// Lanes along n would be half empty (10 columns are 1.25 vectors of AVX2), so they lie along
// whatever is long:
//
//   dot      A as it is, long k:        lanes along k, summed up at the end
//   columns  A transposed, long m:      lanes along m, transposed on the way out
//   rows     everything else:           lanes along n, the last vector overlapping the one before
//   it
//
// This file is compiled once per instruction set; the best one is chosen at run time.
#include "kernels/cpu/gemm_narrow.h"

#include <algorithm>
#include <cassert>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_narrow.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which sets what they expand to.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#ifndef TANDEM_GEMM_NARROW_ONCE
#define TANDEM_GEMM_NARROW_ONCE
namespace tandem::cpu {
namespace {

enum class Formulation { dot, columns, rows };

struct NarrowPlan {
  GemmShape shape;
  Formulation formulation;
  int64_t depth;  // Of dot: how much of k is packed at a time.
};

// n is cut into panels of at most 6 columns, as even as can be: 10 is 5 + 5. A panel of width w
// goes with kAcross[w] rows (dot) or vectors (columns): enough sums to hide the latency of a
// multiply-add, and few enough for 16 registers to hold them beside their operands.
constexpr int kMaxPanel = 6;
constexpr int kAcross[kMaxPanel + 1] = {0, 8, 4, 3, 3, 2, 2};

constexpr int panel_width(int64_t columns) {
  const int64_t panels = (columns + kMaxPanel - 1) / kMaxPanel;
  return static_cast<int>((columns + panels - 1) / panels);
}

}  // namespace
}  // namespace tandem::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// An array of vectors lives in registers only if every loop over it is unrolled, at any
// optimisation level.
#undef TANDEM_UNROLL
#define TANDEM_UNROLL _Pragma("GCC unroll 16")

/// Keeps a loaded vector in its register. GCC would fold the load into each product that uses the
/// vector, and a core does only as many loads per cycle as products.
template <class V>
HWY_INLINE V in_register(V v) {
#if HWY_ARCH_X86 && HWY_COMPILER_GCC_ACTUAL && HWY_TARGET != HWY_SCALAR
  asm("" : "+v"(v.raw));
#endif
  return v;
}

/// Runs `Kernel<width>`, the width being a constant inside.
template <template <int> class Kernel, class Part>
HWY_INLINE void with_width(int64_t width, const Part& part) {
  switch (width) {
    case 1:
      return Kernel<1>::run(part);
    case 2:
      return Kernel<2>::run(part);
    case 3:
      return Kernel<3>::run(part);
    case 4:
      return Kernel<4>::run(part);
    case 5:
      return Kernel<5>::run(part);
    case 6:
      return Kernel<6>::run(part);
    default:
      HWY_DASSERT(false);
  }
}

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

// ---- rows

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

template <class D, int kRows, int kVectors>
HWY_INLINE void rows_tile(D d, const RowsPart<hn::TFromD<D>>& part, int64_t row) {
  using T = hn::TFromD<D>;
  hn::Vec<D> sum[kRows][kVectors];
  TANDEM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TANDEM_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  const T* HWY_RESTRICT a = part.a + row * part.a_row;
  const T* HWY_RESTRICT b = part.b;
  for (int64_t p = 0; p < part.k; ++p, a += part.a_depth, b += part.ldb) {
    hn::Vec<D> columns[kVectors];
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
template <class D, int kVectors>
struct RowsKernel {
  template <int kRows>
  struct Of {
    static HWY_NOINLINE void run(const RowsPart<hn::TFromD<D>>& part) {
      for (int64_t i = 0; i < part.m; i += kRows) {
        rows_tile<D, kRows, kVectors>(D(), part, std::min(i, part.m - kRows));
      }
    }
  };
};

/// `width` columns with the longest vectors that they fill, one or two of them.
template <int kLongest, class T>
HWY_INLINE void rows_of_width(int64_t width, RowsPart<T> part) {
  if constexpr (kLongest > 1) {
    if (width < kLongest) return rows_of_width<kLongest / 2>(width, part);
  }
  using D = hn::CappedTag<T, kLongest>;
  const int64_t tile = panel_width(part.m);
  part.overlap = width - kLongest;
  if (width == kLongest) {
    with_width<RowsKernel<D, 1>::template Of>(tile, part);
  } else {
    with_width<RowsKernel<D, 2>::template Of>(tile, part);
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
  for (int64_t j = 0; j < s.n; j += 2 * kLongest) {
    const int64_t width = std::min<int64_t>(s.n - j, 2 * kLongest);
    rows_of_width<kLongest>(width, part);
    part.b += width;
    part.c += width;
  }
}

#if HWY_TARGET != HWY_SCALAR

template <class T>
using D = hn::ScalableTag<T>;
template <class T>
using V = hn::Vec<D<T>>;
template <class T>
inline constexpr int kLanes = hn::MaxLanes(D<T>());

// Vectors are shuffled within blocks of 128 bits.
template <class T>
inline constexpr int kBlock = 16 / sizeof(T);

/// Each block is a square of its own: v[i] lane j becomes v[j] lane i.
HWY_INLINE void transpose_blocks(V<float> (&v)[4]) {
  const D<float> d;
  const hn::Repartition<double, D<float>> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v[0], v[1]));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v[2], v[3]));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[0], v[1]));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[2], v[3]));
  v[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  v[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
}

HWY_INLINE void transpose_blocks(V<double> (&v)[2]) {
  const D<double> d;
  const auto low = hn::InterleaveLower(d, v[0], v[1]);
  v[1] = hn::InterleaveUpper(d, v[0], v[1]);
  v[0] = low;
}

/// One vector from blocks that lie `stride` elements apart.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* from, int64_t stride) {
  constexpr int kBlocks = hn::MaxLanes(D()) / kBlock<T>;
  if constexpr (kBlocks == 1) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, from + kBlocks / 2 * stride, stride),
                       load_blocks(half, from, stride));
  }
}

template <class D, class T>
HWY_INLINE void store_blocks(D d, hn::Vec<D> v, T* to, int64_t stride) {
  constexpr int kBlocks = hn::MaxLanes(D()) / kBlock<T>;
  if constexpr (kBlocks == 1) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    store_blocks(half, hn::LowerHalf(half, v), to, stride);
    store_blocks(half, hn::UpperHalf(half, v), to + kBlocks / 2 * stride, stride);
  }
}

template <class D>
HWY_INLINE auto add_blocks(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == kBlock<hn::TFromD<D>>) {
    return v;
  } else {
    const hn::Half<D> half;
    return add_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

/// Lane j of the result is the sum of the lanes of v[j].
template <class T>
HWY_INLINE auto sums_of(V<T> (&v)[kBlock<T>]) {
  transpose_blocks(v);
  V<T> sum = v[0];
  TANDEM_UNROLL
  for (int i = 1; i < kBlock<T>; ++i) sum = hn::Add(sum, v[i]);
  return add_blocks(D<T>(), sum);
}

// ---- dot

template <class T>
struct DotPart {
  int64_t m, k;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t b_depth, b_column;  // Distance in B to the next of k, of n.
  T* c;
  int64_t ldc;
  bool add;   // To what C holds from an earlier part of k.
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
    transpose_blocks(v);
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

template <int kRows, int kWidth, class T>
HWY_INLINE void dot_tile(const DotPart<T>& part, int64_t row) {
  const D<T> d;
  constexpr int kSums = (kRows * kWidth + kBlock<T> - 1) / kBlock<T> * kBlock<T>;
  V<T> sum[kSums];
  TANDEM_UNROLL
  for (int i = 0; i < kSums; ++i) sum[i] = hn::Zero(d);

  const T* HWY_RESTRICT a = part.a + row * part.lda;
  const T* HWY_RESTRICT b = part.packed;
  int64_t p = 0;
  for (; p + kLanes<T> <= part.k; p += kLanes<T>, b += kWidth * kLanes<T>) {
    V<T> rows[kRows];
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) rows[r] = hn::LoadU(d, a + r * part.lda + p);
    TANDEM_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      const V<T> column = in_register(hn::LoadU(d, b + j * kLanes<T>));
      TANDEM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        sum[r * kWidth + j] = hn::MulAdd(rows[r], column, sum[r * kWidth + j]);
      }
    }
  }
  if (p < part.k) {
    // Zero on both sides, for a product of zero and infinity is not zero.
    const auto unseen = hn::Not(hn::FirstN(d, static_cast<size_t>(lanes_seen<T>(part.k))));
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const auto end = hn::LoadU(d, a + r * part.lda + part.k - kLanes<T>);
      const auto rows = hn::IfThenElseZero(unseen, end);
      TANDEM_UNROLL
      for (int j = 0; j < kWidth; ++j) {
        const auto column = hn::LoadU(d, b + j * kLanes<T>);
        sum[r * kWidth + j] = hn::MulAdd(rows, column, sum[r * kWidth + j]);
      }
    }
  }

  HWY_ALIGN T total[kSums];
  TANDEM_UNROLL
  for (int i = 0; i < kSums; i += kBlock<T>) {
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
      with_width<DotKernel>(width, DotPart<T>{s.m, k, a + p, s.lda, b + p * b_depth + j * b_column,
                                              b_depth, b_column, c + j, s.ldc, p > 0, workspace});
      j += width;
    }
    p += k;
  }
}

// ---- columns

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

/// `sum` holds kWidth columns of one vector of rows.
template <int kWidth, int kStride, class T>
HWY_INLINE void store_transposed(const V<T> (&sum)[kWidth][kStride], int v, T* HWY_RESTRICT to,
                                 int64_t ldc) {
  const D<T> d;
  constexpr int kWhole = kWidth / kBlock<T> * kBlock<T>;
  TANDEM_UNROLL
  for (int j = 0; j < kWhole; j += kBlock<T>) {
    V<T> some[kBlock<T>];
    TANDEM_UNROLL
    for (int i = 0; i < kBlock<T>; ++i) some[i] = sum[j + i][v];
    transpose_blocks(some);
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
    // For the next tile: no hardware looks ahead over rows as long as these.
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
    store_transposed(sum, v, part.c + (row + v * kLanes<T>)*part.ldc, part.ldc);
  }
}

/// Tiles of kVectors; the last one overlaps the one before it.
template <int kVectors, int kWidth, class T>
HWY_INLINE void columns_tiles(const ColumnsPart<T>& part) {
  constexpr int64_t kRows = kVectors * kLanes<T>;
  for (int64_t i = 0; i < part.m; i += kRows) {
    columns_tile<kVectors, kWidth>(part, std::min(i, part.m - kRows));
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
    with_width<ColumnsKernel>(width, ColumnsPart<T>{s.m, s.k, a, s.lda, b + j, ldb, c + j, s.ldc});
    j += width;
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

template <class T>
void run_as(const NarrowPlan& plan, const void* a_bytes, const void* b_bytes, void* c_bytes,
            void* workspace) {
  const T* a = static_cast<const T*>(a_bytes);
  const T* b = static_cast<const T*>(b_bytes);
  T* c = static_cast<T*>(c_bytes);
  T* scratch = static_cast<T*>(workspace);
#if HWY_TARGET != HWY_SCALAR
  if (plan.formulation == Formulation::dot) return dot(plan.shape, plan.depth, a, b, c, scratch);
  if (plan.formulation == Formulation::columns) return columns(plan.shape, a, b, c, scratch);
#endif
  rows(plan.shape, a, b, c, scratch);
}

void run_narrow(const NarrowPlan& plan, const void* a, const void* b, void* c, void* workspace) {
  if (plan.shape.dtype == DType::float32) return run_as<float>(plan, a, b, c, workspace);
  run_as<double>(plan, a, b, c, workspace);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu {
namespace {

HWY_EXPORT(run_narrow);

// A vector of 64 bytes, the longest there is: dot and columns need one along their long side.
int64_t longest_vector(DType dtype) { return 64 / static_cast<int64_t>(size_of(dtype)); }

// Dot packs B and adds up lanes, which pays off where k is long and many rows share B. From 13
// columns on the lanes of rows are full enough.
Formulation formulation_of(const GemmShape& s) {
  const int64_t vector = longest_vector(s.dtype);
  if (s.transpose_a) return s.m >= vector ? Formulation::columns : Formulation::rows;
  const bool pays_off = s.n <= kMaxPanel ? s.k >= vector : s.k >= 4 * vector && s.m >= 16;
  return s.n <= 12 && pays_off ? Formulation::dot : Formulation::rows;
}

// A packed panel takes most of a first-level cache of 32 KB, and leaves room for the rows that
// stream by.
int64_t depth_of(const GemmShape& s) {
  constexpr int64_t kPanelBytes = 24 * 1024;
  const int64_t row = panel_width(s.n) * static_cast<int64_t>(size_of(s.dtype));
  return kPanelBytes / row / 16 * 16;
}

class NarrowGemm final : public Gemm {
 public:
  explicit NarrowGemm(const GemmShape& s) : plan_{s, formulation_of(s), depth_of(s)} {}

  void run(const void* a, const void* b, void* c, void* workspace) const override {
    HWY_DYNAMIC_DISPATCH(run_narrow)(plan_, a, b, c, workspace);
  }

  size_t workspace_bytes() const override {
    const GemmShape& s = plan_.shape;
    const int64_t element = static_cast<int64_t>(size_of(s.dtype));
    int64_t elements = s.transpose_b ? s.k * s.n : 0;
    if (plan_.formulation == Formulation::dot) {
      const int64_t depth = std::min(s.k, plan_.depth) + longest_vector(s.dtype);
      elements = std::max(elements, depth * panel_width(s.n));
    }
    return static_cast<size_t>(elements * element);
  }

  const char* provider() const override { return "narrow"; }

 private:
  const NarrowPlan plan_;
};

}  // namespace

std::unique_ptr<Gemm> make_narrow_gemm(const GemmShape& shape) {
  assert(shape.n <= kNarrowColumns);
  return std::make_unique<NarrowGemm>(shape);
}

}  // namespace tandem::cpu
#endif
