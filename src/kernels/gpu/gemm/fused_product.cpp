#include "kernels/gpu/gemm/fused_product.h"

#include "kernels/gpu/elementwise/gpu_epilogue.h"

namespace tandem::kernels::gpu {
namespace {

class FusedProduct final : public op::Executable {
 public:
  FusedProduct(ExecutablePtr product, const Signature& signature, const Device& device)
      : product_(std::move(product)), epilogue_(signature, device) {}

  void run(const Launch& launch) const override {
    product_->run(launch);
    epilogue_.run(launch);
  }
  size_t workspace_bytes() const override { return product_->workspace_bytes(); }
  const char* provider() const override { return product_->provider(); }

 private:
  const ExecutablePtr product_;
  const Epilogue epilogue_;
};

/// The epilogue is `expression` of the product and a bias.
bool is_epilogue(const Signature& signature, std::string_view expression) {
  const EpilogueInputs inputs = EpilogueInputs::of(signature);
  return inputs.bias >= 0 && inputs.companion < 0 &&
         signature.attrs.get<op::ExpressionPtr>("epilogue")->str() == expression;
}

}  // namespace

bool is_bias(const Signature& signature) { return is_epilogue(signature, "add(in0, in1)"); }

bool is_bias_and_relu(const Signature& signature) {
  return is_epilogue(signature, "relu(add(in0, in1))");
}

ExecutablePtr with_epilogue(ExecutablePtr product, const Signature& signature,
                            const Device& device) {
  return std::make_shared<FusedProduct>(std::move(product), signature, device);
}

}  // namespace tandem::kernels::gpu
