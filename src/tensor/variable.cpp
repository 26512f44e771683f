#include "tandem/variable.h"

#include "tandem/error.h"
#include "tensor/store.h"

namespace tandem {

Variable::Variable(const Tensor& initial, const VariableOptions& options) {
  check_concrete(*initial.body(), "variable");
  auto body = std::make_shared<VariableBody>();
  body->name = options.name;
  body->dtype = initial.dtype();
  body->shape = initial.shape();
  body->trainable = options.trainable;
  body->aggregation = options.aggregation;
  body->store = creation_store();
  body->range = body->store->allocate(body->dtype, body->shape.count());
  write_range(body->range, initial);
  body_ = std::move(body);
}

const std::string& Variable::name() const { return body_->name; }
DType Variable::dtype() const { return body_->dtype; }
const Shape& Variable::shape() const { return body_->shape; }
bool Variable::trainable() const { return body_->trainable; }

}  // namespace tandem
