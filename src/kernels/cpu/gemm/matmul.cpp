// Matrix products, one or a batch of them, with what follows them (epilogue.h). The rows of all
// products are dealt to the threads; which provider computes a thread's rows, gemm.h chooses.
#include <algorithm>
#include <cassert>
#include <memory>
#include <string_view>
#include <vector>

#include "core/alignment.h"
#include "kernels/cpu/elementwise/epilogue.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_packed.h"
#include "kernels/cpu/gemm/shared_matmul.h"
#include "kernels/matmul_shape.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

using op::Launch;
using op::Signature;

/// Each thread computes its rows of all results, with a product of its own for each matrix that
/// they touch. Parts begin and end within a matrix, so there are few different products. The
/// epilogue follows each product as a whole. It takes 0 to 7% of the product's time, and products
/// in blocks of rows, small enough for the second cache, were as fast or up to 40% slower.
class Matmul final : public op::Executable {
 public:
  /// `matrix` is one product; `batch` says where the operands of each of them lie. `epilogue` may
  /// be null.
  Matmul(const GemmShape& matrix, const Nest<2>& batch, const EpilogueInputs& inputs,
         std::unique_ptr<Epilogue> epilogue, int parts)
      : matrix_(matrix),
        batch_(batch),
        inputs_(inputs),
        element_(static_cast<int64_t>(size_of(matrix.dtype))),
        epilogue_(std::move(epilogue)) {
    a_step_ = matrix.transpose_a ? 1 : matrix.lda;
    const int64_t rows = matrix.m * batch.count();
    for (int part = 0; part < parts; ++part) {
      const auto [begin, end] = op::part_of(matrix.n == 0 ? 0 : rows, part, parts);
      parts_.push_back(part_of(begin, end));
    }
  }

  void run(const Launch& launch) const override {
    assert(static_cast<size_t>(launch.parts) == parts_.size());
    const Part& part = parts_[static_cast<size_t>(launch.part)];
    if (part.begin == part.end) return;
    const char* a = launch.in<char>(0);
    const char* b = launch.in<char>(1);
    const int64_t c_offset = part.begin * matrix_.ldc * element_;
    char* c = launch.out<char>(0) + c_offset;
    const char* companions = input(launch, inputs_.companion);
    if (companions != nullptr) companions += c_offset;
    void* epilogue_space = launch.workspace<char>() + gemm_workspace_bytes();
    if (epilogue_) epilogue_->open(input(launch, inputs_.bias), epilogue_space);
    Position<2> at(batch_, part.begin / matrix_.m);
    int64_t row = part.begin % matrix_.m;
    for (int64_t index = part.begin; index < part.end; at.next()) {
      const int64_t count = std::min(matrix_.m - row, part.end - index);
      const Gemm* gemm = row > 0 ? part.first : count < matrix_.m ? part.last : part.whole;
      gemm->run(a + (at.offset(0) + row * a_step_) * element_, b + at.offset(1) * element_, c,
                launch.workspace());
      if (epilogue_) epilogue_->apply(c, companions, count, epilogue_space);
      const int64_t bytes = count * matrix_.ldc * element_;
      c += bytes;
      if (companions != nullptr) companions += bytes;
      index += count;
      row = 0;
    }
  }

  size_t workspace_bytes() const override {
    return gemm_workspace_bytes() + (epilogue_ ? epilogue_->workspace_bytes() : 0);
  }

  const char* provider() const override {
    return products_.empty() ? "tandem" : products_.front().gemm->provider();
  }

 private:
  static const char* input(const Launch& launch, int index) {
    return index < 0 ? nullptr : launch.in<char>(index);
  }

  /// The size is rounded up: the epilogue's workspace follows.
  size_t gemm_workspace_bytes() const {
    size_t bytes = 0;
    for (const Product& product : products_)
      bytes = std::max(bytes, product.gemm->workspace_bytes());
    return core::aligned(bytes);
  }

  struct Product {
    int64_t rows;
    std::unique_ptr<Gemm> gemm;
  };

  /// Rows [begin, end) of all results, and who computes the matrix that the part begins in the
  /// middle of, whole ones, and the one that it ends in the middle of.
  struct Part {
    int64_t begin, end;
    const Gemm *first, *whole, *last;
  };

  Part part_of(int64_t begin, int64_t end) {
    const int64_t m = matrix_.m;
    Part part{begin, end, nullptr, nullptr, nullptr};
    if (begin == end) return part;
    const int64_t first = std::min((m - begin % m) % m, end - begin);
    if (first > 0) part.first = gemm_for(first);
    if (end - begin - first >= m) part.whole = gemm_for(m);
    if ((end - begin - first) % m > 0) part.last = gemm_for((end - begin - first) % m);
    return part;
  }

  const Gemm* gemm_for(int64_t rows) {
    for (const Product& product : products_) {
      if (product.rows == rows) return product.gemm.get();
    }
    GemmShape shape = matrix_;
    shape.m = rows;
    products_.push_back({rows, prepare_gemm(shape)});
    return products_.back().gemm.get();
  }

  const GemmShape matrix_;
  const Nest<2> batch_;
  const EpilogueInputs inputs_;
  const int64_t element_;
  const std::unique_ptr<Epilogue> epilogue_;
  int64_t a_step_;  // The distance from one row of op(A) to the next, in elements.
  std::vector<Product> products_;
  std::vector<Part> parts_;
};

op::ExecutablePtr prepare(const Signature& s, bool has_epilogue, int parts) {
  const MatmulShape shape = MatmulShape::of(s);
  const Nest<2>& batch = shape.batch;
  const GemmShape matrix{.dtype = s.inputs[0].dtype,
                         .m = shape.m,
                         .n = shape.n,
                         .k = shape.k,
                         .transpose_a = shape.transpose_a,
                         .transpose_b = shape.transpose_b,
                         .lda = shape.lda,
                         .ldb = shape.ldb,
                         .ldc = shape.ldc};
  const EpilogueInputs inputs = EpilogueInputs::of(s);
  // Threads that would all pack do so together.
  if (batch.count() == 1 && gemm_provider(matrix, parts) == kPackedProvider) {
    return make_shared_matmul(matrix, inputs,
                              has_epilogue ? prepare_epilogue_after_bias(s) : nullptr, parts);
  }
  return std::make_shared<Matmul>(matrix, batch, inputs,
                                  has_epilogue ? prepare_epilogue(s) : nullptr, parts);
}

op::ExecutablePtr prepare_matmul(const Signature& s, int parts) { return prepare(s, false, parts); }

op::ExecutablePtr prepare_fused_matmul(const Signature& s, int parts) {
  return prepare(s, true, parts);
}

}  // namespace

void register_matmul(op::BackendKernels& kernels) {
  kernels.add("matmul", {DType::float32, DType::float64}, prepare_matmul);
  kernels.add("fused_matmul", {DType::float32, DType::float64}, prepare_fused_matmul);
}

}  // namespace tandem::kernels::cpu
