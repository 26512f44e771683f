#include "kernels/cpu/shared_matmul.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <optional>

#include "core/alignment.h"
#include "kernels/cpu/gemm_packed.h"

namespace tandem::kernels::cpu {
namespace {

using op::Launch;
using tandem::cpu::GemmShape;
using tandem::cpu::PackedBlock;
using tandem::cpu::PackedPanels;
using tandem::cpu::PackedProduct;

/// The product is a list of cells: a panel of rows by a range of columns. Each thread packs its
/// share of B; then it takes runs of cells from its own share of the list, and from the others'
/// when that is done. Runs shrink towards the end of a share, so that all end at about the same
/// time.
class SharedMatmul final : public op::Executable {
 public:
  SharedMatmul(const GemmShape& shape, std::unique_ptr<Epilogue> epilogue, int parts)
      : shape_(shape),
        product_(shape),
        epilogue_(std::move(epilogue)),
        parts_(parts),
        panels_each_((product_.column_panels() + parts - 1) / parts),
        range_(columns_of_a_cell()),
        ranges_((product_.column_panels() + range_ - 1) / range_),
        cells_(product_.row_panels() * ranges_) {}

  int phases() const override { return 2; }

  void run(const Launch& launch) const override {
    assert(launch.parts == parts_);
    launch.phase == 0 ? pack(launch) : take_blocks(launch);
  }

  size_t workspace_bytes() const override {
    return panels_offset() + product_.panel_bytes() * static_cast<size_t>(panels_each_);
  }

  const char* provider() const override { return tandem::cpu::kPackedProvider; }

 private:
  // A thread's workspace: the next cell of its share, packed rows of A, the epilogue's space, its
  // share of the packed B.
  size_t epilogue_offset() const { return core::kAlignment + product_.space_bytes(); }
  size_t panels_offset() const {
    return epilogue_offset() + (epilogue_ ? core::aligned(epilogue_->workspace_bytes()) : 0);
  }

  /// Column panels of a cell. An epilogue needs whole rows; without one, columns are divided where
  /// rows alone would make too few cells.
  int64_t columns_of_a_cell() const {
    constexpr int64_t kColumns = 512;
    constexpr int64_t kEnough = 64;
    if (epilogue_ || parts_ == 1 || product_.row_panels() >= kEnough * parts_) {
      return product_.column_panels();
    }
    return std::max<int64_t>(1, kColumns / product_.columns());
  }

  PackedPanels panels(const Launch& launch) const {
    return {.first = launch.workspace<char>(0) + panels_offset(),
            .each = panels_each_,
            .stride = launch.workspace_stride};
  }

  static std::atomic_ref<int64_t> next_cell(const Launch& launch, int of_part) {
    return std::atomic_ref(*launch.workspace<int64_t>(of_part));
  }

  void pack(const Launch& launch) const {
    next_cell(launch, launch.part) = op::part_of(cells_, launch).first;
    const int64_t first = launch.part * panels_each_;
    const int64_t last = std::min(first + panels_each_, product_.column_panels());
    product_.pack(launch.in<float>(1), first, last, panels(launch));
  }

  void take_blocks(const Launch& launch) const {
    char* space = launch.workspace<char>();
    void* epilogue_space = space + epilogue_offset();
    if (epilogue_)
      epilogue_->open(launch.inputs > 2 ? launch.in<void>(2) : nullptr, epilogue_space);
    const PackedPanels b = panels(launch);
    auto* c = launch.out<float>(0);
    for (int i = 0; i < parts_; ++i) {
      const int owner = (launch.part + i) % parts_;
      while (const auto block = take_block(launch, owner)) {
        product_.multiply(launch.in<float>(0), b, *block, c, space + core::kAlignment);
        if (!epilogue_) continue;
        const int64_t row = block->row_panel * PackedProduct::kRows;
        const int64_t rows = std::min(block->row_panels * PackedProduct::kRows, shape_.m - row);
        epilogue_->apply(c + row * shape_.ldc, rows, epilogue_space);
      }
    }
  }

  /// The next run of cells of a thread's share, within one range of columns.
  std::optional<PackedBlock> take_block(const Launch& launch, int owner) const {
    constexpr int64_t kFewest = 2;
    const int64_t end = op::part_of(cells_, owner, parts_).second;
    const auto next = next_cell(launch, owner);
    int64_t cell = next.load(std::memory_order_relaxed);
    for (;;) {
      if (cell >= end) return std::nullopt;
      const int64_t row_panel = cell % product_.row_panels();
      const int64_t wanted = parts_ == 1 ? end : std::max((end - cell) / 3, kFewest);
      const int64_t count = std::min(
          {wanted, PackedProduct::kMostRowPanels, end - cell, product_.row_panels() - row_panel});
      if (!next.compare_exchange_weak(cell, cell + count, std::memory_order_relaxed)) continue;
      const int64_t column = cell / product_.row_panels() * range_;
      return PackedBlock{row_panel, count, column,
                         std::min(range_, product_.column_panels() - column)};
    }
  }

  const GemmShape shape_;
  const PackedProduct product_;
  const std::unique_ptr<Epilogue> epilogue_;
  const int parts_;
  const int64_t panels_each_;
  const int64_t range_;   // Column panels of a cell,
  const int64_t ranges_;  // and how many such ranges there are.
  const int64_t cells_;
};

}  // namespace

op::ExecutablePtr make_shared_matmul(const GemmShape& shape, std::unique_ptr<Epilogue> epilogue,
                                     int parts) {
  return std::make_shared<SharedMatmul>(shape, std::move(epilogue), parts);
}

}  // namespace tandem::kernels::cpu
