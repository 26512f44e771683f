// The handle Variable: it takes a range in the store of the scope that it is created in, and writes
// its first value there. Reads and assigns are ops (ops/assign.cpp).
#include "tandem/variable.h"

#include <fmt/format.h>

#include "tandem/error.h"
#include "tensor/late_values.h"
#include "tensor/row_slices.h"
#include "tensor/shared_stores.h"
#include "tensor/store.h"
#include "tensor/unmade_values.h"

namespace tandem {

namespace {

/// Memory for a variable, which is cut first as its store says.
StoreRange allocated(VariableBody& body) {
  Store& store = *body.store;
  const Sharding sharding = body.trainable && is_floating(body.dtype)
                                ? store.sharding_of(body.name, body.shape)
                                : Sharding();
  body.cut = sharding.value;
  body.slot_cut = sharding.slots;
  body.has_gradient_in_parts = sharding.gradients;
  const int64_t count = body.cut.part_of(body.shape).total_extent();
  return body.slot_cut.is_whole()
             ? store.allocate(body.name, body.dtype, count, body.cut)
             : store.allocate_for_parts(body.name, body.dtype, count, body.slot_cut.parts);
}

}  // namespace

Variable::Variable(const Tensor& initial, const VariableOptions& options) {
  if (!initial.defined()) {
    throw FailedPrecondition("variable: the initial value is an empty Tensor");
  }
  check_creation(options.name);
  if (initial.is_symbolic()) {
    throw FailedPrecondition(fmt::format(
        "variable '{}': its initial value does not exist while the function is traced; compute it "
        "under tandem::init_scope()",
        options.name));
  }
  auto body = std::make_shared<VariableBody>();
  body->name = options.name;
  body->dtype = initial.dtype();
  body->shape = initial.shape();
  body->trainable = options.trainable;
  body->aggregation = options.aggregation;
  body->store = creation_store(body->name, body->dtype, body->shape);
  const bool of_replicas = body->store->by_replica().size() > 1 || is_shared(body->store);
  if (of_replicas && options.synchronization == VariableSynchronization::none) {
    throw InvalidArgument(
        fmt::format("variable '{}': synchronization none in the scope of a strategy with several "
                    "replicas; automatic, on_write and on_read are accepted",
                    options.name));
  }
  const bool on_read = options.synchronization == VariableSynchronization::on_read;
  body->trainable &= !on_read;
  body->range = on_read && of_replicas
                    ? body->store->allocate_for_each(body->name, body->dtype, body->shape.count())
                    : allocated(*body);
  if (!LateValueScope::take(*body) && !take_unmade(initial, body->range)) {
    write_first_value(*body, whole(initial));
  }
  body_ = std::move(body);
}

const std::shared_ptr<VariableBody>& Variable::body() const {
  if (!body_) throw FailedPrecondition("variable: this Variable is empty; create one first");
  return body_;
}

const std::string& Variable::name() const { return body()->name; }
DType Variable::dtype() const { return body()->dtype; }
const Shape& Variable::shape() const { return body()->shape; }
bool Variable::trainable() const { return body()->trainable; }

}  // namespace tandem
