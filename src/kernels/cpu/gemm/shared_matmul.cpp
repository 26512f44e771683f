#include "kernels/cpu/gemm/shared_matmul.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <optional>

#include "core/alignment.h"
#include "kernels/cpu/gemm/gemm_packed.h"

namespace tandem::kernels::cpu {
namespace {

using op::Launch;

/// Each thread packs its share of the shared operand; then it takes runs of cells from its own
/// share of the product's list, and from the others' when that is done. Runs shrink towards the end
/// of a share, so that all end at about the same time.
///
/// What is before the product may have left each thread with rows of A of its own, and nobody waits
/// for the others' before the first phase. Where that would pack A the threads meet first, in a
/// phase in which nothing is done.
class SharedMatmul final : public op::Executable {
 public:
  SharedMatmul(const GemmShape& shape, const EpilogueInputs& inputs,
               std::unique_ptr<ElementFunctions> functions, int parts)
      : shape_(shape),
        inputs_(inputs),
        product_(shape, parts),
        functions_(std::move(functions)),
        parts_(parts),
        packing_phase_(parts > 1 && PackedProduct::shares_a(shape, parts) ? 1 : 0),
        panels_each_((product_.shared_panels() + parts - 1) / parts) {}

  int phases() const override { return packing_phase_ + 2; }

  void run(const Launch& launch) const override {
    assert(launch.parts == parts_);
    if (launch.phase == packing_phase_) pack(launch);
    if (launch.phase > packing_phase_) take_blocks(launch);
  }

  size_t workspace_bytes() const override {
    return panels_offset() + product_.shared_bytes(panels_each_);
  }

  const char* provider() const override { return kPackedProvider; }

 private:
  // A thread's workspace: the next cell of its share, space for a block, its share of the packed
  // operand.
  size_t panels_offset() const { return core::kAlignment + product_.space_bytes(); }

  PackedPanels panels(const Launch& launch) const {
    return product_.shared_at(launch.workspace<char>(0) + panels_offset(), panels_each_,
                              launch.workspace_stride);
  }

  PackedOperands operands(const Launch& launch) const {
    return {.a = launch.in<float>(0),
            .b = launch.in<float>(1),
            .bias = inputs_.bias < 0 ? nullptr : launch.in<float>(inputs_.bias),
            .c = launch.out<float>(0)};
  }

  static std::atomic_ref<int64_t> next_cell(const Launch& launch, int of_part) {
    return std::atomic_ref(*launch.workspace<int64_t>(of_part));
  }

  void pack(const Launch& launch) const {
    next_cell(launch, launch.part) = op::part_of(product_.cells(), launch).first;
    const int64_t first = launch.part * panels_each_;
    const int64_t last = std::min(first + panels_each_, product_.shared_panels());
    product_.pack_shared(operands(launch), first, last, panels(launch));
  }

  void take_blocks(const Launch& launch) const {
    char* space = launch.workspace<char>() + core::kAlignment;
    const PackedPanels shared = panels(launch);
    for (int i = 0; i < parts_; ++i) {
      const int owner = (launch.part + i) % parts_;
      while (const auto block = take_block(launch, owner)) {
        product_.multiply(operands(launch), shared, *block, space);
        if (functions_) finish(product_.extent(*block), launch);
      }
    }
  }

  /// While it is in the cache.
  void finish(const PackedExtent& at, const Launch& launch) const {
    const bool together = at.columns == shape_.ldc;
    const int64_t runs = together ? 1 : at.rows;
    const int64_t count = together ? at.rows * at.columns : at.columns;
    for (int64_t run = 0; run < runs; ++run) {
      const int64_t first = (at.row + run) * shape_.ldc + at.column;
      const float* companions =
          inputs_.companion < 0 ? nullptr : launch.in<float>(inputs_.companion) + first;
      functions_->apply(launch.out<float>(0) + first, companions, count);
    }
  }

  /// The next run of cells of a thread's share that makes a block.
  std::optional<PackedBlock> take_block(const Launch& launch, int owner) const {
    constexpr int64_t kFewest = 2;
    const int64_t end = op::part_of(product_.cells(), owner, parts_).second;
    const auto next = next_cell(launch, owner);
    int64_t cell = next.load(std::memory_order_relaxed);
    for (;;) {
      if (cell >= end) return std::nullopt;
      const int64_t wanted = parts_ == 1 ? end : std::max((end - cell) / 3, kFewest);
      const int64_t count = std::min({wanted, product_.cells_together(cell), end - cell});
      if (!next.compare_exchange_weak(cell, cell + count, std::memory_order_relaxed)) continue;
      return product_.block(cell, count);
    }
  }

  const GemmShape shape_;
  const EpilogueInputs inputs_;
  const PackedProduct product_;
  const std::unique_ptr<ElementFunctions> functions_;
  const int parts_;
  const int packing_phase_;
  const int64_t panels_each_;
};

}  // namespace

op::ExecutablePtr make_shared_matmul(const GemmShape& shape, const EpilogueInputs& inputs,
                                     std::unique_ptr<ElementFunctions> functions, int parts) {
  return std::make_shared<SharedMatmul>(shape, inputs, std::move(functions), parts);
}

}  // namespace tandem::kernels::cpu
