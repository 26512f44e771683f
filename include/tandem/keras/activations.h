/// Functions at the end of a layer, by name or object: `Dense(10, {.activation = "relu"})`.
#pragma once

#include <functional>
#include <string>

#include "tandem/tensor.h"

namespace tandem::keras {

/// A function of a tensor, with a name. The handle is cheap.
class TANDEM_API Activation {
 public:
  using Apply = std::function<Tensor(const Tensor&)>;

  /// "linear": the tensor as it is.
  Activation() = default;

  /// `name` is Keras's: "linear", "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu" (by
  /// the error function), "sigmoid", "log_sigmoid", "hard_sigmoid", "tanh", "hard_tanh", "softmax",
  /// "log_softmax" (both over the last axis), "softplus", "softsign", "silu" or "swish",
  /// "hard_silu" or "hard_swish", "mish", "exponential". Throws InvalidArgument for another,
  /// listing these.
  Activation(const std::string& name);  // NOLINT(google-explicit-constructor)
  Activation(const char* name);         // NOLINT(google-explicit-constructor)

  /// One's own.
  Activation(std::string name, Apply apply) : name_(std::move(name)), apply_(std::move(apply)) {}

  const std::string& name() const { return name_; }
  Tensor operator()(const Tensor& x) const { return apply_ ? apply_(x) : x; }

 private:
  std::string name_ = "linear";
  Apply apply_;
};

}  // namespace tandem::keras
