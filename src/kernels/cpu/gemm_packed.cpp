// This file is compiled once per instruction set; the best one is chosen at run time.
#include "kernels/cpu/gemm_packed.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_packed.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets what it expands to.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "core/alignment.h"
#include "kernels/cpu/gemm_simd.h"

#ifndef TANDEM_GEMM_PACKED_ONCE
#define TANDEM_GEMM_PACKED_ONCE
namespace tandem::cpu {

struct PackedFunctions {
  int64_t columns;
  void (*pack_b)(const GemmShape& shape, const float* b, int64_t first, int64_t last,
                 const PackedPanels& to);
  void (*multiply)(const GemmShape& shape, const float* a, const PackedPanels& b,
                   const PackedBlock& block, float* c, float* space);
};

namespace {

constexpr int64_t kRows = PackedProduct::kRows;

/// Terms of one pass: a panel of B of as many, 20 KB with AVX2, stays in the first cache.
constexpr int64_t kMostTerms = 320;

/// How far ahead strided rows are fetched, in rows.
constexpr int64_t kAhead = 8;

/// Passes of about the same length.
inline int64_t terms_of_pass(int64_t k) {
  const int64_t passes = (k + kMostTerms - 1) / kMostTerms;
  return (k + passes - 1) / passes;
}

}  // namespace
}  // namespace tandem::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {
namespace {

using F = hn::ScalableTag<float>;
constexpr int64_t kVector = hn::MaxLanes(F());
constexpr int64_t kColumns = 2 * kVector;

/// kHeight rows of a tile, from panels of A and B with `k` terms each.
template <int kHeight, bool kAdd>
void tile(const float* a, const float* b, int64_t k, float* c, int64_t ldc) {
  const F d;
  hn::Vec<F> low[kHeight];
  hn::Vec<F> high[kHeight];
  TANDEM_UNROLL
  for (int r = 0; r < kHeight; ++r) {
    low[r] = high[r] = hn::Zero(d);
    hwy::Prefetch(c + r * ldc);
    hwy::Prefetch(c + r * ldc + kColumns - 1);
  }
  for (int64_t p = 0; p < k; ++p) {
    const auto b_low = in_register(hn::Load(d, b));
    const auto b_high = in_register(hn::Load(d, b + kVector));
    TANDEM_UNROLL
    for (int r = 0; r < kHeight; ++r) {
      const auto scale = hn::Set(d, a[r]);
      low[r] = hn::MulAdd(scale, b_low, low[r]);
      high[r] = hn::MulAdd(scale, b_high, high[r]);
    }
    a += kRows;
    b += kColumns;
  }
  TANDEM_UNROLL
  for (int r = 0; r < kHeight; ++r) {
    float* row = c + r * ldc;
    if constexpr (kAdd) {
      low[r] = hn::Add(low[r], hn::LoadU(d, row));
      high[r] = hn::Add(high[r], hn::LoadU(d, row + kVector));
    }
    hn::StoreU(low[r], d, row);
    hn::StoreU(high[r], d, row + kVector);
  }
}

template <bool kAdd>
void tile_of(int64_t height, const float* a, const float* b, int64_t k, float* c, int64_t ldc) {
  switch (height) {
    case 1:
      return tile<1, kAdd>(a, b, k, c, ldc);
    case 2:
      return tile<2, kAdd>(a, b, k, c, ldc);
    case 3:
      return tile<3, kAdd>(a, b, k, c, ldc);
    case 4:
      return tile<4, kAdd>(a, b, k, c, ldc);
    case 5:
      return tile<5, kAdd>(a, b, k, c, ldc);
    default:
      return tile<6, kAdd>(a, b, k, c, ldc);
  }
}

/// A tile at the right border, of fewer columns than a panel has.
template <bool kAdd>
void border_tile(int64_t height, int64_t width, const float* a, const float* b, int64_t k, float* c,
                 int64_t ldc) {
  float whole[kRows * kColumns];
  tile_of<false>(height, a, b, k, whole, kColumns);
  for (int64_t r = 0; r < height; ++r) {
    for (int64_t j = 0; j < width; ++j) {
      const float sum = whole[r * kColumns + j];
      c[r * ldc + j] = kAdd ? c[r * ldc + j] + sum : sum;
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
/// to[p][j] = from[j][p] for 4 rows of a vector each.
HWY_INLINE void turn_four(const float* from, int64_t apart, float* to, int64_t to_apart) {
  const F d;
  hn::Vec<F> v[4];
  TANDEM_UNROLL
  for (int i = 0; i < 4; ++i) v[i] = hn::LoadU(d, from + i * apart);
  transpose_blocks(d, v);
  TANDEM_UNROLL
  for (int i = 0; i < 4; ++i) store_blocks(d, v[i], to + i * to_apart, 4 * to_apart);
}

/// The same for two rows.
HWY_INLINE void turn_two(const float* from, int64_t apart, float* to, int64_t to_apart) {
  const hn::FixedTag<float, 4> d;
  const hn::Half<decltype(d)> half;
  for (int64_t p = 0; p < kVector; p += 4, from += 4) {
    const auto v0 = hn::LoadU(d, from);
    const auto v1 = hn::LoadU(d, from + apart);
    for (const auto& pair : {hn::InterleaveLower(d, v0, v1), hn::InterleaveUpper(d, v0, v1)}) {
      hn::StoreU(hn::LowerHalf(half, pair), half, to);
      hn::StoreU(hn::UpperHalf(half, pair), half, to + to_apart);
      to += 2 * to_apart;
    }
  }
}
#endif

/// to[p][j] = from[j][p] for `rows` rows of `k` elements.
HWY_INLINE void turn(const float* from, int64_t apart, int64_t rows, int64_t k, float* to,
                     int64_t to_apart) {
  int64_t p = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; p + kVector <= k; p += kVector) {
    const float* column = from + p;
    float* row = to + p * to_apart;
    int64_t j = 0;
    for (; j + 4 <= rows; j += 4) turn_four(column + j * apart, apart, row + j, to_apart);
    for (; j + 2 <= rows; j += 2) turn_two(column + j * apart, apart, row + j, to_apart);
    for (; j < rows; ++j) {
      for (int64_t q = 0; q < kVector; ++q) row[q * to_apart + j] = column[j * apart + q];
    }
  }
#endif
  for (; p < k; ++p) {
    for (int64_t j = 0; j < rows; ++j) to[p * to_apart + j] = from[j * apart + p];
  }
}

/// `height` rows of op(A) from `row` on and `k` terms from `term` on, in panels.
void pack_a(const GemmShape& s, const float* a, int64_t row, int64_t height, int64_t term,
            int64_t k, float* to) {
  if (!s.transpose_a) {
    for (int64_t i = 0; i < height; i += kRows) {
      const int64_t rows = std::min(kRows, height - i);
      const float* from = a + (row + i) * s.lda + term;
      if (rows == kRows) {  // A constant, which unrolls.
        turn(from, s.lda, kRows, k, to + i * k, kRows);
      } else {
        turn(from, s.lda, rows, k, to + i * k, kRows);
      }
    }
    return;
  }
  const float* from = a + term * s.lda + row;
  for (int64_t p = 0; p < k; ++p, from += s.lda) {
    for (int64_t i = 0; i < height && p + kAhead < k; i += 16) {
      hwy::Prefetch(from + kAhead * s.lda + i);
    }
    int64_t i = 0;
    for (; i + kRows <= height; i += kRows) {
      std::memcpy(to + i * k + p * kRows, from + i, kRows * sizeof(float));
    }
    for (int64_t r = i; r < height; ++r) to[i * k + p * kRows + r - i] = from[r];
  }
}

/// Terms [term, term + k) of op(B)'s last columns, fewer than a panel has; the rest of it is zero.
void pack_border(const GemmShape& s, const float* b, int64_t column, int64_t term, int64_t k,
                 float* to) {
  const int64_t width = s.n - column;
  std::memset(to, 0, static_cast<size_t>(k * kColumns) * sizeof(float));
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < width; ++j) {
      to[p * kColumns + j] =
          s.transpose_b ? b[(column + j) * s.ldb + term + p] : b[(term + p) * s.ldb + column + j];
    }
  }
}

/// Terms of `count` panels that lie beside each other in B, from their first row on.
void copy_panels(const GemmShape& s, const float* from, int64_t count, int64_t k, float* to) {
  const F d;
  for (int64_t p = 0; p < k; ++p, from += s.ldb) {
    for (int64_t i = 0; i < count; ++i) {
      const float* row = from + i * kColumns;
      float* packed = to + (i * k + p) * kColumns;
      if (p + kAhead < k) hwy::Prefetch(row + kAhead * s.ldb);
      hn::Store(hn::LoadU(d, row), d, packed);
      hn::Store(hn::LoadU(d, row + kVector), d, packed + kVector);
    }
  }
}

/// Panels [first, last), which lie in one place.
void pack_b(const GemmShape& s, const float* b, int64_t first, int64_t last,
            const PackedPanels& to) {
  constexpr int64_t kTogether = 4;  // Panels whose rows are read on from one to the next.
  const int64_t pass = terms_of_pass(s.k);
  const int64_t whole = std::min(last, s.n / kColumns);
  for (int64_t term = 0; term < s.k; term += pass) {
    const int64_t k = std::min(pass, s.k - term);
    int64_t panel = first;
    for (; panel < whole && s.transpose_b; ++panel) {
      turn(b + panel * kColumns * s.ldb + term, s.ldb, kColumns, k, to.at(panel, kColumns, term, k),
           kColumns);
    }
    for (; panel < whole; panel = std::min(panel + kTogether, whole)) {
      copy_panels(s, b + term * s.ldb + panel * kColumns, std::min(kTogether, whole - panel), k,
                  to.at(panel, kColumns, term, k));
    }
    if (panel < last) {
      pack_border(s, b, panel * kColumns, term, k, to.at(panel, kColumns, term, k));
    }
  }
}

template <bool kAdd>
void multiply_pass(const GemmShape& s, const float* packed_a, const PackedPanels& b,
                   const PackedBlock& block, int64_t height, int64_t term, int64_t k, float* c) {
  const int64_t end = block.column_panel + block.column_panels;
  for (int64_t panel = block.column_panel; panel < end; ++panel) {
    const float* packed_b = b.at(panel, kColumns, term, k);
    const int64_t column = panel * kColumns;
    const int64_t width = std::min(kColumns, s.n - column);
    for (int64_t i = 0; i < height; i += kRows) {
      const int64_t rows = std::min(kRows, height - i);
      float* corner = c + i * s.ldc + column;
      if (width == kColumns) {
        tile_of<kAdd>(rows, packed_a + i * k, packed_b, k, corner, s.ldc);
      } else {
        border_tile<kAdd>(rows, width, packed_a + i * k, packed_b, k, corner, s.ldc);
      }
    }
  }
}

void multiply(const GemmShape& s, const float* a, const PackedPanels& b, const PackedBlock& block,
              float* c, float* space) {
  const int64_t row = block.row_panel * kRows;
  const int64_t height = std::min(s.m - row, block.row_panels * kRows);
  const int64_t pass = terms_of_pass(s.k);
  for (int64_t term = 0; term < s.k; term += pass) {
    const int64_t k = std::min(pass, s.k - term);
    pack_a(s, a, row, height, term, k, space);
    if (term == 0) {
      multiply_pass<false>(s, space, b, block, height, term, k, c + row * s.ldc);
    } else {
      multiply_pass<true>(s, space, b, block, height, term, k, c + row * s.ldc);
    }
  }
}

const PackedFunctions& packed_functions() {
  static constexpr PackedFunctions kFunctions{kColumns, pack_b, multiply};
  return kFunctions;
}

}  // namespace
}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu {
namespace {

HWY_EXPORT(packed_functions);

class PackedGemm final : public Gemm {
 public:
  explicit PackedGemm(const GemmShape& shape) : product_(shape) {}

  void run(const void* a, const void* b, void* c, void* workspace) const override {
    const int64_t columns = product_.column_panels();
    const PackedPanels panels{.first = static_cast<char*>(workspace) + product_.space_bytes(),
                              .each = columns};
    product_.pack(static_cast<const float*>(b), 0, columns, panels);
    const int64_t rows = product_.row_panels();
    for (int64_t row = 0; row < rows; row += PackedProduct::kMostRowPanels) {
      const int64_t count = std::min(rows - row, PackedProduct::kMostRowPanels);
      product_.multiply(static_cast<const float*>(a), panels, {row, count, 0, columns},
                        static_cast<float*>(c), workspace);
    }
  }
  size_t workspace_bytes() const override {
    return product_.space_bytes() +
           product_.panel_bytes() * static_cast<size_t>(product_.column_panels());
  }
  const char* provider() const override { return kPackedProvider; }

 private:
  const PackedProduct product_;
};

}  // namespace

PackedProduct::PackedProduct(const GemmShape& shape)
    : shape_(shape),
      functions_(HWY_DYNAMIC_DISPATCH(packed_functions)()),
      columns_(functions_.columns) {}

size_t PackedProduct::space_bytes() const {
  const int64_t panels = std::min(row_panels(), kMostRowPanels);
  return core::aligned(static_cast<size_t>(panels * kRows * terms_of_pass(shape_.k)) *
                       sizeof(float));
}

void PackedProduct::pack(const float* b, int64_t first, int64_t last,
                         const PackedPanels& to) const {
  functions_.pack_b(shape_, b, first, last, to);
}

void PackedProduct::multiply(const float* a, const PackedPanels& b, const PackedBlock& block,
                             float* c, void* space) const {
  functions_.multiply(shape_, a, b, block, c, static_cast<float*>(space));
}

std::unique_ptr<Gemm> make_packed_gemm(const GemmShape& shape) {
  return std::make_unique<PackedGemm>(shape);
}

}  // namespace tandem::cpu
#endif
