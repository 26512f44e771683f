/// How pieces of the packed product's operands become panels, and are fetched before. Compiled once
/// per instruction set, within Highway's foreach_target.h.
#if defined(TANDEM_KERNELS_CPU_GEMM_PACKED_PANELS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_GEMM_PACKED_PANELS_H
#undef TANDEM_KERNELS_CPU_GEMM_PACKED_PANELS_H
#else
#define TANDEM_KERNELS_CPU_GEMM_PACKED_PANELS_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/gemm/gemm_packed.h"
#include "kernels/cpu/gemm/gemm_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

using F = hn::ScalableTag<float>;
constexpr int64_t kVector = hn::MaxLanes(F());

/// Rows of a panel of A. Their sums, two vectors each, fit into the registers; AVX-512 has twice as
/// many, and then eight divide most sizes.
constexpr int64_t kRows = kVector >= 16 ? 8 : 6;

/// With AVX-512, whose tiles take each number of A twice as far, rows of A are read where they lie:
/// 175 GFLOP/s of a core where panels gave 163. And nothing is fetched ahead: prefetches beside the
/// tiles took more time than the caches of an Emerald Rapids Xeon need them for.
constexpr bool kReadsAInPlace = kVector >= 16;
constexpr bool kFetchesAhead = kVector < 16;

/// Elements of a line of memory.
constexpr int64_t kLine = 16;

/// How far ahead rows are fetched that are packed at once, in rows.
constexpr int64_t kAhead = 8;

#if HWY_TARGET != HWY_SCALAR
// Elements of a panel of kWidth rows that lie `apart`: to[p][j] = from[j][p], as many terms p as
// are returned.

/// Four rows at a time.
template <int64_t kWidth>
HWY_INLINE int64_t turn_vector(const float* from, int64_t apart, float* to) {
  const F d;
  for (int64_t j = 0; j < kWidth; j += 4) {
    hn::Vec<F> v[4];
    TANDEM_UNROLL
    for (int i = 0; i < 4; ++i) v[i] = hn::LoadU(d, from + (j + i) * apart);
    transpose_blocks(d, v);
    TANDEM_UNROLL
    for (int i = 0; i < 4; ++i) store_blocks(d, v[i], to + i * kWidth + j, 4 * kWidth);
  }
  return kVector;
}

/// The six rows of a panel of A: pairs of rows, then of these, as they follow each other in memory.
template <>
HWY_INLINE int64_t turn_vector<6>(const float* from, int64_t apart, float* to) {
  const hn::CappedTag<float, 8> d;
  const hn::Repartition<double, decltype(d)> pairs;
  using V = hn::Vec<decltype(d)>;
  hn::Vec<decltype(pairs)> low[3], high[3];
  TANDEM_UNROLL
  for (int64_t i = 0; i < 3; ++i) {
    const V even = hn::LoadU(d, from + 2 * i * apart);
    const V odd = hn::LoadU(d, from + (2 * i + 1) * apart);
    low[i] = hn::BitCast(pairs, hn::InterleaveLower(d, even, odd));
    high[i] = hn::BitCast(pairs, hn::InterleaveUpper(d, even, odd));
  }
  // Each block of 128 bits has 24 elements to store.
  const V v[6] = {hn::BitCast(d, hn::InterleaveLower(pairs, low[0], low[1])),
                  hn::BitCast(d, hn::OddEven(low[0], low[2])),
                  hn::BitCast(d, hn::InterleaveUpper(pairs, low[1], low[2])),
                  hn::BitCast(d, hn::InterleaveLower(pairs, high[0], high[1])),
                  hn::BitCast(d, hn::OddEven(high[0], high[2])),
                  hn::BitCast(d, hn::InterleaveUpper(pairs, high[1], high[2]))};
  constexpr int64_t kLanes = hn::MaxLanes(d);
  if constexpr (kLanes == 4) {
    TANDEM_UNROLL
    for (int64_t i = 0; i < 6; ++i) hn::StoreU(v[i], d, to + 4 * i);
  } else {
    TANDEM_UNROLL
    for (int64_t i = 0; i < 6; i += 2) {
      hn::StoreU(hn::ConcatLowerLower(d, v[i + 1], v[i]), d, to + 4 * i);
      hn::StoreU(hn::ConcatUpperUpper(d, v[i + 1], v[i]), d, to + 24 + 4 * i);
    }
  }
  return kLanes;
}
#endif

/// `k` terms of a panel of rows that lie `apart`.
template <int64_t kWidth>
HWY_INLINE void turn(const float* from, int64_t apart, int64_t k, float* to) {
  int64_t p = 0;
#if HWY_TARGET != HWY_SCALAR
  while (p + kVector <= k) p += turn_vector<kWidth>(from + p, apart, to + p * kWidth);
#endif
  for (; p < k; ++p) {
    for (int64_t j = 0; j < kWidth; ++j) to[p * kWidth + j] = from[j * apart + p];
  }
}

/// An operand as it lies in memory: a matrix whose rows are terms, or whose columns are; the other
/// side is rows of op(A) or columns of op(B), `lines` of them.
struct Operand {
  const float* first;
  int64_t stride;
  bool terms_are_rows;
  int64_t lines;
};

Operand operand_a(const GemmShape& s, const PackedOperands& of) {
  return {of.a, s.lda, s.transpose_a, s.m};
}
Operand operand_b(const GemmShape& s, const PackedOperands& of) {
  return {of.b, s.ldb, !s.transpose_b, s.n};
}

/// A rectangle of an operand.
struct Piece {
  int64_t line, lines, term, terms;
};

/// Where a piece of an operand begins in memory, and how many rows of what length it has there.
struct Lying {
  Lying(const Operand& o, const Piece& piece)
      : first(o.terms_are_rows ? o.first + piece.term * o.stride + piece.line
                               : o.first + piece.line * o.stride + piece.term),
        rows(o.terms_are_rows ? piece.terms : piece.lines),
        length(o.terms_are_rows ? piece.lines : piece.terms) {}
  const float* first;
  int64_t rows, length;
};

/// One term of a panel. Of a panel of A, wide vectors read and write two elements too many: they
/// write them where the next term goes, or into the gap behind the panel.
template <int64_t kWidth>
constexpr int64_t kCopied = kWidth % kVector == 0 || kVector < 8 ? kWidth : 8;
static_assert(kRows <= 8);

template <int64_t kWidth>
HWY_INLINE void copy_term(const float* from, float* to) {
  const hn::CappedTag<float, kWidth % kVector == 0 ? kVector : 8> d;
  if constexpr (kWidth % kVector == 0 || kVector >= 8) {
    for (int64_t j = 0; j < kWidth; j += static_cast<int64_t>(hn::MaxLanes(d))) {
      hn::StoreU(hn::LoadU(d, from + j), d, to + j);
    }
  } else {
    std::memcpy(to, from, kWidth * sizeof(float));
  }
}

/// Panels of an operand whose terms are rows. Several are written at once, so that rows are read on
/// from one to the next.
template <int64_t kWidth>
void copy_panels(const Operand& o, const Piece& piece, float* to, int64_t apart) {
  constexpr int64_t kTogether = 96 / kWidth * kWidth;
  for (int64_t done = 0; done < piece.lines; done += kTogether, to += kTogether / kWidth * apart) {
    const int64_t lines = std::min(kTogether, piece.lines - done);
    const float* from = o.first + piece.term * o.stride + piece.line + done;
    for (int64_t p = 0; p < piece.terms; ++p, from += o.stride) {
      for (int64_t j = 0; j < lines && p + kAhead < piece.terms; j += kLine) {
        hwy::Prefetch(from + kAhead * o.stride + j);
      }
      float* term = to + p * kWidth;
      int64_t j = 0;
      for (; j + kCopied<kWidth> <= lines; j += kWidth, term += apart) {
        copy_term<kWidth>(from + j, term);
      }
      for (; j + kWidth <= lines; j += kWidth, term += apart) {
        std::memcpy(term, from + j, kWidth * sizeof(float));
      }
    }
  }
}

/// A panel of fewer lines than others have; the rest of it is zero.
template <int64_t kWidth>
void pack_border(const Operand& o, const Piece& piece, float* to) {
  std::memset(to, 0, static_cast<size_t>(piece.terms * kWidth) * sizeof(float));
  const int64_t term_step = o.terms_are_rows ? o.stride : 1;
  const int64_t line_step = o.terms_are_rows ? 1 : o.stride;
  const float* first = Lying(o, piece).first;
  for (int64_t p = 0; p < piece.terms; ++p) {
    for (int64_t j = 0; j < piece.lines; ++j) {
      to[p * kWidth + j] = first[p * term_step + j * line_step];
    }
  }
}

/// A piece that begins with a panel.
template <int64_t kWidth>
void pack(const Operand& o, const Piece& piece, float* to, int64_t apart) {
  Piece whole = piece;
  whole.lines = piece.lines / kWidth * kWidth;
  if (o.terms_are_rows) {
    copy_panels<kWidth>(o, whole, to, apart);
  } else {
    const float* from = Lying(o, piece).first;
    for (int64_t j = 0; j < whole.lines; j += kWidth) {
      turn<kWidth>(from + j * o.stride, o.stride, piece.terms, to + j / kWidth * apart);
    }
  }
  if (whole.lines == piece.lines) return;
  const Piece border{piece.line + whole.lines, piece.lines - whole.lines, piece.term, piece.terms};
  pack_border<kWidth>(o, border, to + whole.lines / kWidth * apart);
}

/// Fetches a piece that is packed next from far memory, a few lines beside each tile.
class FetchAhead {
 public:
  FetchAhead(const Operand& o, const Piece& piece, int64_t tiles) : stride_(o.stride) {
    const Lying lying(o, piece);
    row_ = lying.first;
    length_ = lying.length;
    left_ = lying.rows * ((length_ + kLine - 1) / kLine);
    each_ = (left_ + tiles - 1) / tiles;
  }

  HWY_INLINE void some() {
    const int64_t count = std::min(each_, left_);
    left_ -= count;
    for (int64_t i = 0; i < count; ++i) {
      hwy::Prefetch(row_ + done_);
      done_ += kLine;
      const bool ended = done_ >= length_;  // Chosen, not branched on: nobody could foretell it.
      row_ += ended ? stride_ : 0;
      done_ = ended ? 0 : done_;
    }
  }

 private:
  const int64_t stride_;
  const float* row_;
  int64_t length_;
  int64_t done_ = 0;  // How much of the row is done.
  int64_t left_;      // The lines that are left,
  int64_t each_;      // and how many beside each tile.
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
