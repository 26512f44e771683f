#include <algorithm>
#include <cassert>
#include <memory>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

using op::Launch;
using op::Signature;
using tandem::cpu::Gemm;
using tandem::cpu::GemmShape;

/// Each thread computes its rows of the result with a product of its own. Parts differ in size by
/// at most one row, so there are at most two products.
class Matmul final : public op::Executable {
 public:
  Matmul(const GemmShape& whole, int parts)
      : rows_(whole.m), element_(size_of(whole.dtype)), ldc_(whole.ldc) {
    a_step_ = whole.transpose_a ? 1 : whole.lda;
    for (int part = 0; part < parts; ++part) {
      const auto [begin, end] = op::part_of(rows_, part, parts);
      gemm_of_part_.push_back(gemm_for(whole, end - begin));
    }
  }

  void run(const Launch& launch) const override {
    assert(static_cast<size_t>(launch.parts) == gemm_of_part_.size());
    const Gemm* gemm = gemm_of_part_[static_cast<size_t>(launch.part)];
    if (gemm == nullptr) return;
    const auto begin = static_cast<size_t>(op::part_of(rows_, launch).first);
    gemm->run(launch.in<char>(0) + begin * static_cast<size_t>(a_step_) * element_,
              launch.in<char>(1),
              launch.out<char>(0) + begin * static_cast<size_t>(ldc_) * element_, launch.workspace());
  }

  size_t workspace_bytes() const override {
    size_t bytes = 0;
    for (const Product& product : products_)
      bytes = std::max(bytes, product.gemm->workspace_bytes());
    return bytes;
  }

  const char* provider() const override {
    return products_.empty() ? "tandem" : products_.front().gemm->provider();
  }

 private:
  struct Product {
    int64_t rows;
    std::unique_ptr<Gemm> gemm;
  };

  /// Null when the part has no elements.
  const Gemm* gemm_for(GemmShape shape, int64_t rows) {
    if (rows == 0 || shape.n == 0) return nullptr;
    for (const Product& product : products_) {
      if (product.rows == rows) return product.gemm.get();
    }
    shape.m = rows;
    products_.push_back({rows, tandem::cpu::prepare_gemm(shape)});
    return products_.back().gemm.get();
  }

  const int64_t rows_;
  const size_t element_;
  const int64_t ldc_;
  int64_t a_step_;  // In elements, from one row of op(A) to the next.
  std::vector<Product> products_;
  std::vector<const Gemm*> gemm_of_part_;
};

op::ExecutablePtr prepare_matmul(const Signature& s, int parts) {
  const Shape& a = s.inputs[0].shape;
  const Shape& b = s.inputs[1].shape;
  const Shape& c = s.outputs[0].shape;
  const bool transpose_a = s.attrs.get<bool>("transpose_a");
  const GemmShape whole{.dtype = s.inputs[0].dtype,
                        .m = c[0],
                        .n = c[1],
                        .k = a[transpose_a ? 0 : 1],
                        .transpose_a = transpose_a,
                        .transpose_b = s.attrs.get<bool>("transpose_b"),
                        .lda = a[1],
                        .ldb = b[1],
                        .ldc = c[1]};
  return std::make_shared<Matmul>(whole, parts);
}

}  // namespace

void register_matmul(op::Registry& registry) {
  registry.add_kernel("matmul", "cpu", {DType::float32, DType::float64}, prepare_matmul);
}

}  // namespace tandem::kernels::cpu
