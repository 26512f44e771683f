/// A Variable is a named value that changes: the weights of a model, the step of an optimizer. The
/// handle is cheap and copies name the same variable. It lives in the store of the scope it was
/// created in; under a strategy it has one component in each memory space of the replicas' devices.
///
/// Reads and assigns of one variable from several threads at once are the caller's to order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tandem/tensor.h"

namespace tandem {

/// What an assign inside `strategy.run` does with the replicas' different values.
enum class VariableAggregation { none, sum, mean, only_first_replica };

struct VariableOptions {
  std::string name = "Variable";
  bool trainable = true;
  VariableAggregation aggregation = VariableAggregation::none;
};

struct VariableBody;

class TANDEM_API Variable {
 public:
  Variable() = default;

  /// A variable with a copy of `initial`. Under tracing this is FailedPrecondition: create
  /// variables outside of the function, or on its first call.
  explicit Variable(const Tensor& initial, const VariableOptions& options = {});

  bool defined() const { return body_ != nullptr; }
  const std::string& name() const;
  DType dtype() const;
  const Shape& shape() const;
  bool trainable() const;

  /// The value now. Later assigns do not change the tensor that was read.
  Tensor value() const;
  operator Tensor() const { return value(); }  // NOLINT(google-explicit-constructor)

  /// The new value must have this variable's shape and dtype.
  void assign(const Tensor& value) const;
  void assign_add(const Tensor& delta) const;
  void assign_sub(const Tensor& delta) const;

  /// For the library's own use. Throws FailedPrecondition when the handle is empty.
  const std::shared_ptr<VariableBody>& body() const;
  explicit Variable(std::shared_ptr<VariableBody> body) : body_(std::move(body)) {}

 private:
  std::shared_ptr<VariableBody> body_;
};

using Variables = std::vector<Variable>;

}  // namespace tandem
