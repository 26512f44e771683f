#include "data/batch_memory.h"

#include <algorithm>

#include "tensor/body.h"

namespace tandem::data {

std::shared_ptr<TensorBody> BatchMemory::take(size_t component, DType dtype, const Shape& shape) {
  // A caller that holds more batches than this keeps them all, and none will be free again soon.
  constexpr size_t kMost = 8;
  if (component >= pools_.size()) pools_.resize(component + 1);
  auto& pool = pools_[component];
  const auto free = std::ranges::find_if(pool, [&](const std::shared_ptr<TensorBody>& body) {
    return body->dtype == dtype && body->shape == shape && is_sole_owner(body);
  });
  if (free != pool.end()) return *free;
  auto body = new_body(devices::host_device(), dtype, shape);
  if (pool.size() < kMost) pool.push_back(body);
  return body;
}

}  // namespace tandem::data
