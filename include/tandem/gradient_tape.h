/// A GradientTape records the operations of its thread from its construction until gradient() is
/// called, and gives the derivatives of what they computed. It works alike in eager code and inside
/// traced functions.
///
///   GradientTape tape;
///   Tensor loss = ...;
///   Tensors gradients = tape.gradient(loss, variables);
#pragma once

#include <memory>

#include "tandem/tensor.h"
#include "tandem/variable.h"

namespace tandem {

struct GradientTapeOptions {
  bool persistent = false;  ///< gradient() may be called more than once.
  bool watch_accessed_variables = true;
};

/// A tape is used and destroyed on the thread that made it.
class TANDEM_API GradientTape {
 public:
  explicit GradientTape(const GradientTapeOptions& options = {});
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  /// Treats `tensor` as an input whose derivative will be asked for. Trainable variables need no
  /// watching.
  void watch(const Tensor& tensor);
  void watch(const Variable& variable);

  /// The derivative of the sum of `target` by each source; undefined where the two are not
  /// connected. A tape that is not persistent is spent afterwards: a second call is
  /// FailedPrecondition.
  Tensors gradient(const Tensor& target, const Variables& sources);
  Tensors gradient(const Tensor& target, const Tensors& sources);

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace tandem
