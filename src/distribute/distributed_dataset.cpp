// Data sets under a strategy: each element of the source is split by rows, one part for each
// replica. All replicas take part in every step, so a part may have no rows.
#include "tandem/distributed_dataset.h"

#include <fmt/format.h>

#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::distribute {
namespace {

/// Tensors of the same types as `element`, with no rows.
Tensors without_rows(const Tensors& element) {
  Tensors empty;
  for (const Tensor& tensor : element) empty.push_back(tensor.rows(0, 0));
  return empty;
}

void check_rows(const Tensors& element) {
  for (size_t i = 0; i < element.size(); ++i) {
    if (element[i].rank() > 0) continue;
    throw InvalidArgument(fmt::format(
        "distributed data set: tensor {} of an element is a scalar, which has no rows to deal to "
        "replicas; batch the data set first",
        i));
  }
}

}  // namespace

int64_t InputContext::get_per_replica_batch_size(int64_t global_batch_size) const {
  if (global_batch_size % num_replicas_in_sync == 0) {
    return global_batch_size / num_replicas_in_sync;
  }
  throw InvalidArgument(
      fmt::format("get_per_replica_batch_size: {} rows cannot be dealt evenly to {} replicas",
                  global_batch_size, num_replicas_in_sync));
}

DistributedDataset Strategy::distribute_dataset(const data::Dataset& batches) const {
  return {*this, batches, false};
}

DistributedDataset Strategy::experimental_distribute_dataset(const data::Dataset& batches) const {
  return distribute_dataset(batches);
}

DistributedDataset Strategy::distribute_datasets_from_function(
    const std::function<data::Dataset(const InputContext&)>& f) const {
  return {*this, f({.num_replicas_in_sync = num_replicas_in_sync()}), true};
}

DistributedDataset::Iterator DistributedDataset::iterator() const {
  return {strategy_, dataset_.iterator(), per_replica_};
}

DistributedDataset::Iterator DistributedDataset::iterator(int64_t epoch) const {
  return {strategy_, dataset_.iterator(epoch), per_replica_};
}

DistributedDataset::Iterator DistributedDataset::restore(std::string_view position) const {
  return {strategy_, dataset_.restore(position), per_replica_};
}

int64_t DistributedDataset::cardinality() const {
  const int64_t elements = dataset_.cardinality();
  if (!per_replica_ || elements < 0) return elements;
  const int replicas = strategy_.num_replicas_in_sync();
  return (elements + replicas - 1) / replicas;
}

std::optional<PerReplicas> DistributedDataset::Iterator::next() {
  const std::optional<data::Element> first = elements_.next();
  if (!first) return std::nullopt;
  check_rows(*first);
  if (!per_replica_) return strategy_.split(*first);
  // For each tensor of the element, the part of each replica.
  std::vector<Tensors> values(first->size());
  for (int r = 0; r < strategy_.num_replicas_in_sync(); ++r) {
    const std::optional<data::Element> own = r == 0 ? first : elements_.next();
    const Tensors element = own ? *own : without_rows(*first);
    for (size_t i = 0; i < values.size(); ++i) values[i].push_back(element[i]);
  }
  PerReplicas step;
  for (Tensors& list : values) step.emplace_back(std::move(list));
  return step;
}

}  // namespace tandem::distribute
