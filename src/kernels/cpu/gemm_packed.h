/// The product of matrices that are large every way, float32. B is laid out in panels as wide as a
/// tile, A in panels as high, so that a tile is computed from two streams of memory.
///
/// Threads can share one product: each packs some panels of B, and then takes tiles as it gets to
/// them, so that a core that others disturb takes fewer. An element is the same sum in the same
/// order whoever computes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cpu/gemm.h"

namespace tandem::cpu {

/// B in panels, `each` of them in each of several places, `stride` bytes apart. A place holds the
/// terms of the first pass over all of its panels, then those of the second: as they are read.
struct PackedPanels {
  char* first = nullptr;
  int64_t each = 0;
  size_t stride = 0;

  /// Where the panel's `count` terms from `term` on lie, which are those of one pass.
  float* at(int64_t panel, int64_t columns, int64_t term, int64_t count) const {
    auto* place = reinterpret_cast<float*>(first + static_cast<size_t>(panel / each) * stride);
    return place + (term * each + panel % each * count) * columns;
  }
};

/// A rectangle of tiles: panels of A, which are rows of C, by panels of B, which are columns.
struct PackedBlock {
  int64_t row_panel = 0, row_panels = 0;
  int64_t column_panel = 0, column_panels = 0;
};

/// Of the instruction set in use.
struct PackedFunctions;

class PackedProduct {
 public:
  /// Rows of a panel of A.
  static constexpr int64_t kRows = 6;
  /// The most panels of A in a block: they stay in the second cache while all of B passes.
  static constexpr int64_t kMostRowPanels = 16;

  explicit PackedProduct(const GemmShape& shape);

  int64_t row_panels() const { return (shape_.m + kRows - 1) / kRows; }
  int64_t column_panels() const { return (shape_.n + columns_ - 1) / columns_; }
  int64_t columns() const { return columns_; }
  size_t panel_bytes() const { return static_cast<size_t>(shape_.k * columns_) * sizeof(float); }
  /// Of the space that `multiply` needs, a multiple of 64.
  size_t space_bytes() const;

  /// Panels [first, last) of B, which lie in one place.
  void pack(const float* b, int64_t first, int64_t last, const PackedPanels& to) const;

  /// Overwrites a block of C. Its panels of B have been packed.
  void multiply(const float* a, const PackedPanels& b, const PackedBlock& block, float* c,
                void* space) const;

 private:
  const GemmShape shape_;
  const PackedFunctions& functions_;
  const int64_t columns_;
};

inline constexpr const char* kPackedProvider = "packed";

/// The same on one thread.
std::unique_ptr<Gemm> make_packed_gemm(const GemmShape& shape);

}  // namespace tandem::cpu
