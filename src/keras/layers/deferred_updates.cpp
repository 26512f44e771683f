#include "keras/layers/deferred_updates.h"

#include <algorithm>

#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {
thread_local DeferredUpdates* current = nullptr;
thread_local int ignored = 0;
}  // namespace

DeferredUpdates::DeferredUpdates() {
  if (current != nullptr) {
    throw FailedPrecondition("fit: a training step is made within another of the same thread");
  }
  current = this;
}

DeferredUpdates::~DeferredUpdates() { current = nullptr; }

void DeferredUpdates::set(const Variable& weight, const Next& next) {
  if (ignored > 0) return;
  if (current == nullptr) return weight.assign(next(weight.value()));
  auto& updates = current->updates_;
  const auto known = std::ranges::find_if(
      updates, [&](const Update& update) { return update.weight.body() == weight.body(); });
  if (known == updates.end()) {
    updates.push_back({weight, next(weight.value())});
  } else {
    known->value = next(known->value);
  }
}

DeferredUpdates::Ignored::Ignored() { ++ignored; }
DeferredUpdates::Ignored::~Ignored() { --ignored; }

void DeferredUpdates::commit(const Tensor& condition) const {
  for (const Update& update : updates_) {
    update.weight.assign(where(condition, update.value, update.weight.value()));
  }
}

}  // namespace tandem::keras
