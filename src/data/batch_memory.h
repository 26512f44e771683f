/// The memory of batches, used again once nobody holds the batch.
#pragma once

#include <memory>
#include <vector>

#include "tandem/tensor.h"

namespace tandem::data {

class BatchMemory {
 public:
  /// Memory on the host for tensor `component` of a batch, not yet written.
  std::shared_ptr<TensorBody> take(size_t component, DType dtype, const Shape& shape);

 private:
  std::vector<std::vector<std::shared_ptr<TensorBody>>> pools_;  // The bodies of each component.
};

}  // namespace tandem::data
