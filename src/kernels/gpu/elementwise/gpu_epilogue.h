/// What is done to the result of a product, element by element (kernels/epilogue_inputs.h), as a
/// kernel behind the product's own.
///
///   const Epilogue epilogue(signature, device);      // For fused_matmul or fused_conv2d.
///   .. issue the product, then ..
///   epilogue.run(launch);
#pragma once

#include "kernels/epilogue_inputs.h"
#include "kernels/gpu/elementwise/function_text.h"

namespace tandem::kernels::gpu {

class Epilogue {
 public:
  /// The signature has the attribute "epilogue".
  Epilogue(const Signature& signature, const Device& device);

  /// Changes the whole of output 0 in place; the bias and the companion are the signature's inputs.
  void run(const Launch& launch) const;

  /// Changes `rows` rows of the last axis of the result, which lie at `data` one after another.
  /// `bias` is a row; `companion` has an element for each of `data`. Those that the signature does
  /// not have are ignored.
  void run(const Launch& launch, void* data, const void* bias, const void* companion,
           int64_t rows) const;

 private:
  const EpilogueInputs inputs_;
  const int64_t rows_;
  const int64_t columns_;
  const ElementKernel kernel_;
};

/// The epilogue as statements, for products that apply it themselves. The names are those of an
/// element of the product, of the bias and of the companion; the statements call kMathFunctions and
/// have one result.
PrintedExpression print_epilogue(const Signature& signature, const std::string& product,
                                 const std::string& bias, const std::string& companion);

}  // namespace tandem::kernels::gpu
