/// A Variable is a named value that changes: the weights of a model, the step of an optimizer. The
/// handle is cheap and copies name the same variable. It lives in the store of the scope it was
/// created in; under a strategy it has one component in each memory space of the replicas' devices.
///
/// A read is a snapshot that later assigns do not change. It shares the variable's memory until the
/// first of them. Reads and assigns of one variable from several threads at once are the caller's
/// to order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tandem/tensor.h"

namespace tandem {

/// What becomes of the replicas' different values: when they assign inside `strategy.run`, or, for
/// a variable that is synchronized on_read, when somebody reads it outside.
enum class VariableAggregation { none, sum, mean, only_first_replica };

/// When replicas agree on the value of a variable of their strategy.
enum class VariableSynchronization {
  automatic,  ///< The same as on_write.
  none,       ///< They never do; with more than one replica this is InvalidArgument.
  on_write,   ///< All have one value; what they assign is aggregated first.
  on_read,    ///< Each has its own, which the others do not see. Outside of run the aggregate is
              ///< read; an assign there sets it. Never trainable.
};

struct VariableOptions {
  std::string name = "Variable";
  bool trainable = true;
  VariableAggregation aggregation = VariableAggregation::none;
  VariableSynchronization synchronization = VariableSynchronization::automatic;
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

  /// The new value must have this variable's shape and dtype; a number is put everywhere.
  void assign(const Tensor& value) const;
  void assign_add(const Tensor& delta) const;
  void assign_sub(const Tensor& delta) const;

  /// Parts of the value, as those of a Tensor.
  Tensor operator[](int64_t index) const { return value()[index]; }
  template <IndexLike... Indices>
  Tensor operator()(const Indices&... indices) const {
    return value()(indices...);
  }

  /// For the library's own use. Throws FailedPrecondition when the handle is empty.
  const std::shared_ptr<VariableBody>& body() const;
  explicit Variable(std::shared_ptr<VariableBody> body) : body_(std::move(body)) {}

 private:
  std::shared_ptr<VariableBody> body_;
};

using Variables = std::vector<Variable>;

}  // namespace tandem
