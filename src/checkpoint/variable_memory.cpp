#include "checkpoint/variable_memory.h"

#include <algorithm>

#include "device/transfer.h"
#include "tandem/config.h"
#include "tensor/late_values.h"
#include "tensor/store.h"
#include "tensor/unmade_values.h"

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
  if (const Tensor late = value_without_memory(*variable.body()->range.block); late.defined()) {
    copy_.resize(bytes_of(variable));
    late.copy_to_host(copy_.data());
    run_ = std::span<const char>(copy_);
    return;
  }
  if (const char* memory = host_memory_of(variable)) {
    run_ = std::span(memory, bytes_of(variable));
    return;
  }
  const StoreRange& range = variable.body()->range;
  if (range.is_same_for_all()) {
    const devices::DevicePtr& device = range.block->components()[0]->device();
    run_ = ByteRun(device, static_cast<const char*>(range.data(*device)), bytes_of(variable));
    return;
  }
  copy_.resize(bytes_of(variable));
  variable.value().copy_to_host(copy_.data());
  run_ = std::span<const char>(copy_);
}

VariableTarget::VariableTarget(const Variable& variable) : variable_(variable) {
  const StoreRange& range = variable.body()->range;
  range.block->wait_for_devices();
  const bool has_memory = range.block->has_memory();
  if (has_memory) range.block->settle_loans();
  forget_unmade(range);
  if (!range.is_same_for_all() || !has_memory) {
    aside_.resize(std::max<size_t>(bytes_of(variable), 1));
    data_ = aside_.data();
  } else if (range.block->components().size() == 1) {
    data_ = host_memory_of(variable);
  }
}

namespace {

/// In C++ no byte but 0 and 1 may be a bool.
void make_booleans(std::span<char> bytes) {
  for (char& byte : bytes) byte = byte != 0 ? 1 : 0;
}

}  // namespace

void VariableTarget::put(size_t offset, std::span<char> bytes) {
  if (variable_.dtype() == DType::boolean) make_booleans(bytes);
  const StoreRange& range = variable_.body()->range;
  for (const auto& component : range.block->components()) {
    const char* from = bytes.data();
    devices::write_in_chunks(*component->device(),
                             static_cast<char*>(range.data(*component->device())) + offset,
                             bytes.size(), [&](char* chunk, size_t size) {
                               std::copy_n(from, size, chunk);
                               from += size;
                             });
  }
}

void VariableTarget::finish() {
  if (data_ == nullptr) return;
  if (variable_.dtype() == DType::boolean) make_booleans({data_, bytes_of(variable_)});
  if (aside_.empty()) return;
  write_variable(*variable_.body(), Tensor::copy_of(data_, variable_.dtype(), variable_.shape()));
}

}  // namespace tandem::checkpoint
