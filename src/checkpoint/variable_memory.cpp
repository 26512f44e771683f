#include "checkpoint/variable_memory.h"

#include <algorithm>

#include "tandem/config.h"
#include "tensor/store.h"

namespace tandem::checkpoint {
namespace {

size_t bytes_of(const Variable& variable) {
  return static_cast<size_t>(variable.shape().count()) * size_of(variable.dtype());
}

/// The first component that the host can address, once its device has done what it was asked to.
char* host_memory_of(const Variable& variable) {
  const StoreRange& range = variable.body()->range;
  if (!range.is_same_for_all()) return nullptr;
  for (const auto& component : range.block->components()) {
    const auto& device = component->device();
    if (!device->space().host_readable()) continue;
    device->queue().record().wait(config::wait_deadline());
    return static_cast<char*>(range.data(*device));
  }
  return nullptr;
}

}  // namespace

VariableImage::VariableImage(const Variable& variable) {
  if (const char* memory = host_memory_of(variable)) {
    bytes_ = {memory, bytes_of(variable)};
    return;
  }
  copy_.resize(bytes_of(variable));
  variable.value().copy_to_host(copy_.data());
  bytes_ = copy_;
}

VariableTarget::VariableTarget(const Variable& variable) : variable_(variable) {
  variable.body()->range.block->settle_loans();
  if (variable.body()->range.block->components().size() == 1) data_ = host_memory_of(variable);
  if (data_ != nullptr) return;
  aside_.resize(std::max<size_t>(bytes_of(variable), 1));
  data_ = aside_.data();
}

void VariableTarget::finish() {
  if (variable_.dtype() == DType::boolean) {
    // In C++ no byte but 0 and 1 may be a bool.
    std::for_each(data_, data_ + bytes_of(variable_), [](char& b) { b = b != 0 ? 1 : 0; });
  }
  if (aside_.empty()) return;
  write_variable(*variable_.body(), Tensor::copy_of(data_, variable_.dtype(), variable_.shape()));
}

}  // namespace tandem::checkpoint
