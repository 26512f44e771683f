#include "distribute/range/gradient_sink.h"

#include <utility>

#include "tensor/store.h"

namespace tandem::distribute {
namespace {

thread_local GradientSink* current_sink = nullptr;

}  // namespace

ServerUpdate::~ServerUpdate() = default;

GradientSink* GradientSink::current() { return current_sink; }

GradientSink::Scope::Scope(GradientSink& sink) : former_(std::exchange(current_sink, &sink)) {}
GradientSink::Scope::~Scope() { current_sink = former_; }

Variable elements_of(const Variable& variable, int64_t begin, int64_t count) {
  auto body = std::make_shared<VariableBody>(*variable.body());
  body->shape = Shape{count};
  body->range.offset += begin;
  body->range.count = count;
  return Variable(std::move(body));
}

}  // namespace tandem::distribute
