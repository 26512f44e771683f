// Matrix products, one or a batch of them, with what follows them.
#include "kernels/epilogue_inputs.h"
#include "kernels/gpu/gemm/fused_product.h"
#include "kernels/gpu/gemm/products.h"
#include "kernels/matmul_shape.h"

namespace tandem::kernels::gpu {
namespace {

/// A provider takes two axes of a batch at once; the others are walked here.
class Matmul final : public op::Executable {
 public:
  Matmul(const Signature& s, const Device& device)
      : element_(static_cast<int64_t>(size_of(s.inputs[0].dtype))),
        products_(products_for(device, s.inputs[0].dtype)) {
    const MatmulShape matrix = MatmulShape::of(s);
    walked_ = matrix.batch;
    const Axis<2> inner = walked_.take_inner();
    const Axis<2> outer = walked_.take_inner();
    const int64_t result = matrix.m * matrix.n;
    shape_ = {.m = matrix.m,
              .n = matrix.n,
              .k = matrix.k,
              .transpose_a = matrix.transpose_a,
              .transpose_b = matrix.transpose_b,
              .lda = matrix.lda,
              .ldb = matrix.ldb,
              .ldc = matrix.ldc,
              .outer = outer.size,
              .inner = inner.size,
              .a = {outer.strides[0], inner.strides[0]},
              .b = {outer.strides[1], inner.strides[1]},
              .c = {inner.size * result, result}};
  }

  void run(const Launch& launch) const override {
    const int64_t count = walked_.count();
    const int64_t result_bytes = shape_.batch() * shape_.m * shape_.n * element_;
    if (result_bytes == 0) return;
    Position<2> at(walked_, 0);
    for (int64_t i = 0; i < count; ++i, at.next()) {
      products_->multiply(launch, shape_, launch.in<char>(0) + at.offset(0) * element_,
                          launch.in<char>(1) + at.offset(1) * element_,
                          launch.out<char>(0) + i * result_bytes, 0);
    }
  }

  /// The product plus the bias, where the provider has both in one call and there is one product.
  bool run_with_bias(const Launch& launch, int bias) const {
    return walked_.count() == 1 &&
           products_->multiply_with_bias(launch, shape_, launch.in<void>(0), launch.in<void>(1),
                                         launch.in<void>(bias), launch.out<void>(0));
  }

  size_t workspace_bytes() const override { return products_->workspace_bytes(shape_); }
  const char* provider() const override { return products_->provider(); }

 private:
  const int64_t element_;
  const ProductsPtr products_;
  Nest<2> walked_;
  ProductShape shape_;
};

ExecutablePtr prepare_matmul(const Signature& s, const Device& device) {
  return std::make_shared<Matmul>(s, device);
}

/// A product whose epilogue is a bias and nothing else, which libraries know.
class BiasedMatmul final : public op::Executable {
 public:
  BiasedMatmul(const Signature& s, const Device& device)
      : product_(std::make_shared<Matmul>(s, device)),
        otherwise_(with_epilogue(product_, s, device)),
        bias_(EpilogueInputs::of(s).bias) {}

  void run(const Launch& launch) const override {
    if (!product_->run_with_bias(launch, bias_)) otherwise_->run(launch);
  }
  size_t workspace_bytes() const override { return otherwise_->workspace_bytes(); }
  const char* provider() const override { return otherwise_->provider(); }

 private:
  const std::shared_ptr<const Matmul> product_;
  const ExecutablePtr otherwise_;
  const int bias_;
};

ExecutablePtr prepare_fused_matmul(const Signature& s, const Device& device) {
  if (is_bias(s)) return std::make_shared<BiasedMatmul>(s, device);
  return with_epilogue(prepare_matmul(s, device), s, device);
}

}  // namespace

void register_matmul(op::BackendKernels& kernels) {
  const std::vector<DType> floating{DType::float32, DType::float64};
  add_kernel(kernels, "matmul", floating, prepare_matmul);
  add_kernel(kernels, "fused_matmul", floating, prepare_fused_matmul);
}

}  // namespace tandem::kernels::gpu
