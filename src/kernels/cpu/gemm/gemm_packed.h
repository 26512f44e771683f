/// The product of matrices that are large every way, float32. A is laid out in panels as high as a
/// tile, B in panels as wide, so that a tile is computed from two streams of memory.
///
/// One operand, the shared one, is packed as a whole; the other block by block, right before the
/// block is used, and fetched from far memory beside the tiles of the block before. (With AVX-512
/// the other is read where it lies, if it is an A that is not transposed.) Threads can
/// share one product: each packs some panels of the shared operand, and then takes blocks as it
/// gets to them, so that a core that others disturb takes fewer. An element is the same sum in the
/// same order whoever computes it, whichever operand is shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cpu/gemm/gemm.h"

namespace tandem::kernels::cpu {

/// Panels of an operand: `each` of them in each of several places, `stride` bytes apart. A place
/// holds the terms of the first pass over all of its panels, then those of the second: as they are
/// read. From one panel to the next it is `apart` elements: the panel and a gap.
struct PackedPanels {
  static constexpr int64_t kGap = 16;

  char* first = nullptr;
  int64_t each = 0;
  size_t stride = 0;
  int64_t apart = 0;

  float* at(int64_t panel, int64_t pass) const {
    auto* place = reinterpret_cast<float*>(first + static_cast<size_t>(panel / each) * stride);
    return place + (pass * each + panel % each) * apart;
  }
};

/// A rectangle of tiles: panels of A, which are rows of C, by panels of B, which are columns.
struct PackedBlock {
  int64_t row_panel = 0, row_panels = 0;
  int64_t column_panel = 0, column_panels = 0;
};

/// Rows and columns of C.
struct PackedExtent {
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 0;
};

/// Where a product's operands and result lie. `bias` is a row that is added to each of C, or null.
struct PackedOperands {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* bias = nullptr;
  float* c = nullptr;
};

/// The functions of the instruction set in use.
struct PackedFunctions;

/// The product as a list of cells. A cell is a panel of the operand that is packed in blocks, by
/// all panels of the shared one or, where that makes too few cells, by a range of them.
class PackedProduct {
 public:
  /// A product for `parts` threads.
  PackedProduct(const GemmShape& shape, int parts);

  /// Whether A would be the shared operand: it has few rows, and B has columns for all threads.
  static bool shares_a(const GemmShape& shape, int parts);

  /// The number of panels of the shared operand.
  int64_t shared_panels() const { return shares_a_ ? row_panels() : column_panels(); }
  /// `count` of them that lie in one place: their bytes, a multiple of 64, and how to find them.
  size_t shared_bytes(int64_t count) const;
  PackedPanels shared_at(char* first, int64_t count, size_t stride = 0) const;
  /// Packs those from `first` to before `last`, which lie in one place.
  void pack_shared(const PackedOperands& operands, int64_t first, int64_t last,
                   const PackedPanels& to) const;

  int64_t cells() const { return lines() * cells_of_line(); }
  /// How many cells from `first` on can make one block.
  int64_t cells_together(int64_t first) const;
  PackedBlock block(int64_t first, int64_t count) const;
  /// What of C a block is.
  PackedExtent extent(const PackedBlock& block) const;

  /// Overwrites a block of C. The shared operand has been packed. `space` has space_bytes() bytes,
  /// a multiple of 64.
  void multiply(const PackedOperands& operands, const PackedPanels& shared,
                const PackedBlock& block, void* space) const;
  size_t space_bytes() const;

 private:
  int64_t row_panels() const { return (shape_.m + rows_ - 1) / rows_; }
  int64_t column_panels() const { return (shape_.n + columns_ - 1) / columns_; }
  int64_t cells_of_line() const { return shares_a_ ? column_panels() : row_panels(); }
  int64_t lines() const { return (shared_panels() + range_ - 1) / range_; }
  int64_t most_together() const;

  const GemmShape shape_;
  const PackedFunctions& functions_;
  const int64_t rows_;     // Rows of a panel of A.
  const int64_t columns_;  // Columns of a panel of B.
  const bool shares_a_;
  const int64_t range_;  // Shared panels of a cell.
};

inline constexpr const char* kPackedProvider = "packed";

/// The same on one thread.
std::unique_ptr<Gemm> make_packed_gemm(const GemmShape& shape);

}  // namespace tandem::kernels::cpu
