#include "tensor/shared_stores.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace tandem {
namespace {

std::mutex mutex;

std::vector<std::weak_ptr<Store>>& stores() {
  static auto* stores = new std::vector<std::weak_ptr<Store>>;
  return *stores;
}

}  // namespace

void note_shared(const std::shared_ptr<Store>& store) {
  const std::lock_guard lock(mutex);
  std::erase_if(stores(), [](const auto& known) { return known.expired(); });
  stores().push_back(store);
}

bool is_shared(const std::shared_ptr<Store>& store) {
  const std::lock_guard lock(mutex);
  return std::ranges::any_of(stores(), [&](const auto& known) { return known.lock() == store; });
}

}  // namespace tandem
