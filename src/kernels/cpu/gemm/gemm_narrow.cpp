// Chooses the formulation when a product is prepared, and the instruction set when it runs: this
// file compiles itself once for each.
#include "kernels/cpu/gemm/gemm_narrow.h"

#include <algorithm>
#include <cassert>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm/gemm_narrow.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/gemm/gemm_narrow_columns.h"
#include "kernels/cpu/gemm/gemm_narrow_dot.h"
#include "kernels/cpu/gemm/gemm_narrow_rows.h"

#ifndef TANDEM_KERNELS_CPU_NARROW_PLAN
#define TANDEM_KERNELS_CPU_NARROW_PLAN
namespace tandem::kernels::cpu {
namespace {

enum class Formulation { rows, dot, columns };

struct NarrowPlan {
  GemmShape shape;
  Formulation formulation;
  int64_t depth;  // How much of k is packed at a time, for dot.
};

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

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
}  // namespace tandem::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
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
  constexpr int64_t kPanelBytes = int64_t{24} * 1024;
  const int64_t row = int64_t{panel_width(s.n)} * static_cast<int64_t>(size_of(s.dtype));
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
    // Without vectors every formulation is rows, which want a transposed B copied.
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

}  // namespace tandem::kernels::cpu
#endif
