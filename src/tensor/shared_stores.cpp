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

std::vector<std::pair<std::weak_ptr<StoreBlock>, int64_t>>& parts() {
  static auto* parts = new std::vector<std::pair<std::weak_ptr<StoreBlock>, int64_t>>;
  return *parts;
}

}  // namespace

void note_in_parts(const StoreRange& range) {
  if (is_in_parts(range)) return;
  const std::lock_guard lock(mutex);
  std::erase_if(parts(), [](const auto& known) { return known.first.expired(); });
  parts().emplace_back(range.block, range.offset);
}

bool is_in_parts(const StoreRange& range) {
  const std::lock_guard lock(mutex);
  return std::ranges::any_of(parts(), [&](const auto& known) {
    return known.second == range.offset && known.first.lock() == range.block;
  });
}

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
