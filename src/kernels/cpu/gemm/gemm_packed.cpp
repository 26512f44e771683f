// This file is compiled once per instruction set; the best one is chosen at run time.
#include "kernels/cpu/gemm/gemm_packed.h"

#include <algorithm>
#include <cstring>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm/gemm_packed.cpp"
#include <hwy/foreach_target.h>
// This comes after foreach_target.h, which sets what it expands to.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "core/alignment.h"
#include "kernels/cpu/gemm/gemm_packed_panels.h"
#include "kernels/cpu/gemm/gemm_simd.h"

#ifndef TANDEM_GEMM_PACKED_ONCE
#define TANDEM_GEMM_PACKED_ONCE
namespace tandem::kernels::cpu {

struct PackedFunctions {
  int64_t rows;
  int64_t columns;
  void (*pack_shared)(const GemmShape& shape, bool shares_a, const PackedOperands& operands,
                      int64_t first, int64_t last, const PackedPanels& to);
  void (*multiply)(const GemmShape& shape, bool shares_a, const PackedOperands& operands,
                   const PackedPanels& shared, const PackedBlock& block, float* space);
};

namespace {

/// Terms of one pass: a panel of B of as many, 20 KB with AVX2, stays in the first cache.
constexpr int64_t kMostTerms = 320;

/// The most panels in a block: of A, they stay in the second cache while all of B passes; of B,
/// beside all of A, of which there are only so many panels where it is shared.
constexpr int64_t kMostRowPanels = 16;
constexpr int64_t kMostColumnPanels = 8;
constexpr int64_t kMostSharedRows = 288;

inline int64_t passes_of(int64_t k) { return (k + kMostTerms - 1) / kMostTerms; }

/// Passes of about the same length.
inline int64_t terms_of_pass(int64_t k) { return (k + passes_of(k) - 1) / passes_of(k); }

/// The distance from one panel to the next: with a gap, lest the same terms of all panels meet in a
/// few sets of the first cache.
inline int64_t panels_apart(int64_t k, int64_t width) {
  return terms_of_pass(k) * width + PackedPanels::kGap;
}

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kColumns = 2 * kVector;

/// Where a tile goes: its corner, from one row to the next, and what is added to each row, or null.
struct Target {
  float* c;
  int64_t ldc;
  const float* bias;
};

/// Rows of A: those of a panel lie side by side; in place they are `apart` elements from each
/// other.
struct RowsOfA {
  const float* first;
  int64_t apart;
};

/// kHeight rows of a tile, from rows of A and a panel of B with `k` terms each.
template <int kHeight, bool kAdd, bool kInPlace>
HWY_NOINLINE void tile(const RowsOfA& rows, const float* b, int64_t k, const Target& target) {
  const F d;
  const auto& [c, ldc, bias] = target;
  const float* a = rows.first;
  const int64_t apart = kInPlace ? rows.apart : 1;
  hn::Vec<F> low[kHeight];
  hn::Vec<F> high[kHeight];
  TANDEM_UNROLL
  for (int r = 0; r < kHeight; ++r) {
    low[r] = high[r] = hn::Zero(d);
    hwy::Prefetch(c + r * ldc);
    hwy::Prefetch(c + r * ldc + kColumns - 1);
  }
#pragma GCC unroll 8
  for (int64_t p = 0; p < k; ++p) {
    const auto b_low = in_register(hn::Load(d, b));
    const auto b_high = in_register(hn::Load(d, b + kVector));
    TANDEM_UNROLL
    for (int r = 0; r < kHeight; ++r) {
      const auto scale = hn::Set(d, a[r * apart]);
      low[r] = hn::MulAdd(scale, b_low, low[r]);
      high[r] = hn::MulAdd(scale, b_high, high[r]);
    }
    a += kInPlace ? 1 : kRows;
    b += kColumns;
  }
  if constexpr (kAdd) {
    TANDEM_UNROLL
    for (int r = 0; r < kHeight; ++r) {
      low[r] = hn::Add(low[r], hn::LoadU(d, c + r * ldc));
      high[r] = hn::Add(high[r], hn::LoadU(d, c + r * ldc + kVector));
    }
  }
  if (bias != nullptr) {
    TANDEM_UNROLL
    for (int r = 0; r < kHeight; ++r) {
      low[r] = hn::Add(low[r], hn::LoadU(d, bias));
      high[r] = hn::Add(high[r], hn::LoadU(d, bias + kVector));
    }
  }
  TANDEM_UNROLL
  for (int r = 0; r < kHeight; ++r) {
    hn::StoreU(low[r], d, c + r * ldc);
    hn::StoreU(high[r], d, c + r * ldc + kVector);
  }
}

using TileFunction = void (*)(const RowsOfA& a, const float* b, int64_t k, const Target& target);

/// The tile functions by height, from one row on. A plain array: GCC merges the accessors of
/// std::array across instruction sets and then warns of the other set's size.
template <bool kAdd, bool kInPlace, class Before = std::make_integer_sequence<int, kRows>>
struct Tiles;
template <bool kAdd, bool kInPlace, int... kBefore>
struct Tiles<kAdd, kInPlace, std::integer_sequence<int, kBefore...>> {
  static constexpr TileFunction kOfHeight[] = {tile<kBefore + 1, kAdd, kInPlace>...};
};

template <bool kAdd>
HWY_INLINE void tile_of(int64_t height, const RowsOfA& a, const float* b, int64_t k,
                        const Target& target) {
  const auto of_height = static_cast<size_t>(height - 1);
  if constexpr (kReadsAInPlace) {
    if (a.apart > 1) return Tiles<kAdd, true>::kOfHeight[of_height](a, b, k, target);
  }
  Tiles<kAdd, false>::kOfHeight[of_height](a, b, k, target);
}

/// A tile at the right border, of fewer columns than a panel has.
template <bool kAdd>
void border_tile(int64_t height, int64_t width, const RowsOfA& a, const float* b, int64_t k,
                 const Target& target) {
  float whole[kRows * kColumns] = {};
  tile_of<false>(height, a, b, k, {whole, kColumns, nullptr});
  for (int64_t r = 0; r < height; ++r) {
    float* row = target.c + r * target.ldc;
    for (int64_t j = 0; j < width; ++j) {
      const float sum = whole[r * kColumns + j];
      row[j] = kAdd ? row[j] + sum : sum;
      if (target.bias != nullptr) row[j] += target.bias[j];
    }
  }
}

template <int64_t kWidth>
void pack_panels(const Operand& o, int64_t k, int64_t first, int64_t last, const PackedPanels& to) {
  Piece piece{first * kWidth, std::min(last * kWidth, o.lines) - first * kWidth, 0, 0};
  for (int64_t pass = 0; piece.term < k; ++pass, piece.term += piece.terms) {
    piece.terms = std::min(terms_of_pass(k), k - piece.term);
    pack<kWidth>(o, piece, to.at(first, pass), to.apart);
  }
}

void pack_shared(const GemmShape& s, bool shares_a, const PackedOperands& operands, int64_t first,
                 int64_t last, const PackedPanels& to) {
  if (first >= last) return;
  if (shares_a) {
    pack_panels<kRows>(operand_a(s, operands), s.k, first, last, to);
  } else {
    pack_panels<kColumns>(operand_b(s, operands), s.k, first, last, to);
  }
}

/// Rows of A where they lie, taken for panels. They are only read.
PackedPanels panels_in_place(const Operand& a, const Piece& piece) {
  char* first = reinterpret_cast<char*>(const_cast<float*>(Lying(a, piece).first));
  return {.first = first, .each = a.lines, .apart = kRows * a.stride};
}

/// Walks through the panels of one pass, from `first` on.
class PanelCursor {
 public:
  PanelCursor(const PackedPanels& panels, int64_t first, int64_t pass)
      : panels_(panels), pass_(pass), panel_(first) {
    seek();
  }
  const float* get() const { return at_; }
  HWY_INLINE void next() {
    ++panel_;
    at_ += panels_.apart;
    if (--left_ == 0) seek();
  }

 private:
  void seek() {
    at_ = panels_.at(panel_, pass_);
    left_ = panels_.each - panel_ % panels_.each;
  }

  const PackedPanels& panels_;
  const int64_t pass_;
  int64_t panel_;
  int64_t left_ = 0;  // The panels that are left in the place where this one lies.
  const float* at_ = nullptr;
};

/// The terms of one pass over a block. The target is for the corner of C.
template <bool kAdd>
void multiply_pass(const GemmShape& s, const PanelCursor& first_a, int64_t rows_apart,
                   PanelCursor b, const PackedBlock& block, int64_t terms, FetchAhead ahead,
                   const Target& target) {
  for (int64_t j = 0; j < block.column_panels; ++j, b.next()) {
    PanelCursor a = first_a;
    const int64_t column = (block.column_panel + j) * kColumns;
    const int64_t width = std::min(kColumns, s.n - column);
    const float* bias = target.bias == nullptr ? nullptr : target.bias + column;
    for (int64_t i = 0; i < block.row_panels; ++i, a.next()) {
      const int64_t row = (block.row_panel + i) * kRows;
      const int64_t height = std::min(kRows, s.m - row);
      const Target corner{target.c + row * s.ldc + column, s.ldc, bias};
      const RowsOfA rows{a.get(), rows_apart};
      if constexpr (kFetchesAhead) ahead.some();
      if (width == kColumns) {
        tile_of<kAdd>(height, rows, b.get(), terms, corner);
      } else {
        border_tile<kAdd>(height, width, rows, b.get(), terms, corner);
      }
    }
  }
}

void multiply(const GemmShape& s, bool shares_a, const PackedOperands& operands,
              const PackedPanels& shared, const PackedBlock& block, float* space) {
  const Operand own = shares_a ? operand_b(s, operands) : operand_a(s, operands);
  const bool in_place = kReadsAInPlace && !shares_a && !s.transpose_a && s.lda > 1;
  const int64_t width = shares_a ? kColumns : kRows;
  const int64_t panels = shares_a ? block.column_panels : block.row_panels;
  const int64_t first = shares_a ? block.column_panel : block.row_panel;
  const PackedPanels packed{
      .first = reinterpret_cast<char*>(space), .each = panels, .apart = panels_apart(s.k, width)};
  const int64_t line = first * width;
  const int64_t most = terms_of_pass(s.k);
  Piece piece{line, std::min(panels * width, own.lines - line), 0, most};
  for (int64_t pass = 0; piece.term < s.k; ++pass) {
    if (shares_a) {
      pack<kColumns>(own, piece, space, packed.apart);
    } else if (!in_place) {
      pack<kRows>(own, piece, space, packed.apart);
    }
    // The next terms of these panels; after the last, the next panels.
    Piece next{line, piece.lines, piece.term + piece.terms, 0};
    next.terms = std::min(most, s.k - next.term);
    Piece fetched = next;
    if (next.terms == 0) {
      fetched = {line + piece.lines, std::min(piece.lines, own.lines - line - piece.lines), 0,
                 most};
    }
    const FetchAhead ahead(own, fetched, block.row_panels * block.column_panels);
    const PackedPanels own_at = in_place ? panels_in_place(own, piece) : packed;
    const int64_t rows_apart = in_place ? s.lda : 1;
    const PanelCursor own_panels(own_at, 0, 0);
    const PanelCursor shared_panels(shared, shares_a ? block.row_panel : block.column_panel, pass);
    const PanelCursor& a = shares_a ? shared_panels : own_panels;
    const PanelCursor& b = shares_a ? own_panels : shared_panels;
    const Target target{operands.c, s.ldc, next.terms == 0 ? operands.bias : nullptr};
    if (pass == 0) {
      multiply_pass<false>(s, a, rows_apart, b, block, piece.terms, ahead, target);
    } else {
      multiply_pass<true>(s, a, rows_apart, b, block, piece.terms, ahead, target);
    }
    piece = next;
  }
}

const PackedFunctions& packed_functions() {
  static constexpr PackedFunctions kFunctions{kRows, kColumns, pack_shared, multiply};
  return kFunctions;
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(packed_functions);

class PackedGemm final : public Gemm {
 public:
  explicit PackedGemm(const GemmShape& shape) : product_(shape, 1) {}

  void run(const void* a, const void* b, void* c, void* workspace) const override {
    const PackedOperands operands{.a = static_cast<const float*>(a),
                                  .b = static_cast<const float*>(b),
                                  .c = static_cast<float*>(c)};
    const int64_t panels = product_.shared_panels();
    const PackedPanels shared =
        product_.shared_at(static_cast<char*>(workspace) + product_.space_bytes(), panels);
    product_.pack_shared(operands, 0, panels, shared);
    for (int64_t cell = 0; cell < product_.cells();) {
      const int64_t count = product_.cells_together(cell);
      product_.multiply(operands, shared, product_.block(cell, count), workspace);
      cell += count;
    }
  }
  size_t workspace_bytes() const override {
    return product_.space_bytes() + product_.shared_bytes(product_.shared_panels());
  }
  const char* provider() const override { return kPackedProvider; }

 private:
  const PackedProduct product_;
};

/// Shared panels of a cell. Those of a shared B are divided where all of its columns would make too
/// few cells.
int64_t shared_panels_of_cell(const GemmShape& s, int64_t columns, int parts) {
  constexpr int64_t kDivided = 512;
  constexpr int64_t kEnoughRows = 384;
  if (parts == 1 || s.m >= kEnoughRows * parts) return (s.n + columns - 1) / columns;
  return std::max<int64_t>(1, kDivided / columns);
}

}  // namespace

bool PackedProduct::shares_a(const GemmShape& s, int parts) {
  constexpr int64_t kPanelsEach = 8;
  const int64_t columns = HWY_DYNAMIC_DISPATCH(packed_functions)().columns;
  // What one pass reads of so many rows stays in the second cache.
  return s.m < s.n && s.m <= kMostSharedRows && s.n >= kPanelsEach * parts * columns;
}

PackedProduct::PackedProduct(const GemmShape& shape, int parts)
    : shape_(shape),
      functions_(HWY_DYNAMIC_DISPATCH(packed_functions)()),
      rows_(functions_.rows),
      columns_(functions_.columns),
      shares_a_(shares_a(shape, parts)),
      range_(shares_a_ ? row_panels() : shared_panels_of_cell(shape, columns_, parts)) {}

size_t PackedProduct::shared_bytes(int64_t count) const {
  return core::aligned(
      static_cast<size_t>(count * shared_at(nullptr, 1).apart * passes_of(shape_.k)) *
      sizeof(float));
}

PackedPanels PackedProduct::shared_at(char* first, int64_t count, size_t stride) const {
  return {first, count, stride, panels_apart(shape_.k, shares_a_ ? rows_ : columns_)};
}

void PackedProduct::pack_shared(const PackedOperands& operands, int64_t first, int64_t last,
                                const PackedPanels& to) const {
  functions_.pack_shared(shape_, shares_a_, operands, first, last, to);
}

int64_t PackedProduct::most_together() const {
  return std::min(cells_of_line(), shares_a_ ? kMostColumnPanels : kMostRowPanels);
}

int64_t PackedProduct::cells_together(int64_t first) const {
  return std::min(most_together(), cells_of_line() - first % cells_of_line());
}

PackedBlock PackedProduct::block(int64_t first, int64_t count) const {
  const int64_t panel = first % cells_of_line();
  const int64_t shared = first / cells_of_line() * range_;
  const int64_t range = std::min(range_, shared_panels() - shared);
  return shares_a_ ? PackedBlock{shared, range, panel, count}
                   : PackedBlock{panel, count, shared, range};
}

PackedExtent PackedProduct::extent(const PackedBlock& block) const {
  const int64_t row = block.row_panel * rows_;
  const int64_t column = block.column_panel * columns_;
  return {row, std::min(block.row_panels * rows_, shape_.m - row), column,
          std::min(block.column_panels * columns_, shape_.n - column)};
}

void PackedProduct::multiply(const PackedOperands& operands, const PackedPanels& shared,
                             const PackedBlock& block, void* space) const {
  functions_.multiply(shape_, shares_a_, operands, shared, block, static_cast<float*>(space));
}

size_t PackedProduct::space_bytes() const {
  const int64_t apart = panels_apart(shape_.k, shares_a_ ? columns_ : rows_);
  return core::aligned(static_cast<size_t>(most_together() * apart) * sizeof(float));
}

std::unique_ptr<Gemm> make_packed_gemm(const GemmShape& shape) {
  return std::make_unique<PackedGemm>(shape);
}

}  // namespace tandem::kernels::cpu
#endif
