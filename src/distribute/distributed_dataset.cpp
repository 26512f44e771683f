// Data sets under a strategy: each element of the source is split by rows, one part for each
// replica. All replicas take part in every step, so a part may have no rows.
#include "tandem/distribute/distributed_dataset.h"

#include <fmt/format.h>

#include "data/source.h"
#include "distribute/strategy_body.h"
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

/// Throws Unimplemented where other processes have the same rows as this one.
void check_own_rows(const char* what, const ReplicaSpan& span) {
  if (span.count >= span.model) return;
  throw Unimplemented(fmt::format(
      "{}: the {} processes along an axis of the mesh have the same rows; AutoShardPolicy::data is "
      "accepted",
      what, span.model));
}

/// What this process reads of a data set of files.
data::Dataset own_files_of(const data::Dataset& batches, const WorkerGroup& workers,
                           const ReplicaSpan& span) {
  const int64_t files = batches.files();
  if (files == 0) {
    throw InvalidArgument(fmt::format(
        "distribute_dataset: AutoShardPolicy::file, and '{}' is not made of files by from_files; "
        "data and off are accepted, or give each process its files by "
        "distribute_datasets_from_function",
        batches.str()));
  }
  if (files < workers.size()) {
    throw InvalidArgument(
        fmt::format("distribute_dataset: AutoShardPolicy::file, and '{}' has {} files for {} "
                    "processes, of which each needs one; data is accepted",
                    batches.str(), files, workers.size()));
  }
  return batches.share_of_files(
      {workers.rank(), workers.size(), data::BatchShare{span.first, span.count, span.all}});
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

DistributedDataset Strategy::distribute_dataset(const data::Dataset& batches,
                                                const InputOptions& options) const {
  using enum DistributedDataset::Dealing;
  const bool has_others = body_->other_replicas() != nullptr;
  if (!has_others) return {*this, batches, global_batch};
  const ReplicaSpan span = body_->span();
  switch (options.auto_shard_policy) {
    case AutoShardPolicy::off:
      check_own_rows("distribute_dataset: AutoShardPolicy::off", span);
      return {*this, batches, process_batch};
    case AutoShardPolicy::file:
      check_own_rows("distribute_dataset: AutoShardPolicy::file", span);
      return {*this, own_files_of(batches, *body_->other_replicas(), span), process_batch};
    case AutoShardPolicy::automatic:
    case AutoShardPolicy::data:
      break;
  }
  return {*this, batches.share_of_replicas(span.shard_of(0), span.own_shards(), span.shards()),
          global_batch};
}

DistributedDataset Strategy::experimental_distribute_dataset(const data::Dataset& batches,
                                                             const InputOptions& options) const {
  return distribute_dataset(batches, options);
}

DistributedDataset Strategy::distribute_datasets_from_function(
    const std::function<data::Dataset(const InputContext&)>& f) const {
  InputContext context{.num_replicas_in_sync = num_replicas_in_sync()};
  if (const WorkerGroup* workers = body_->other_replicas()) {
    check_own_rows("distribute_datasets_from_function", body_->span());
    context.num_input_pipelines = workers->size();
    context.input_pipeline_id = workers->rank();
  }
  return {*this, f(context), DistributedDataset::Dealing::replica_batch};
}

DistributedDataset::Iterator DistributedDataset::iterator() const {
  return {strategy_, dataset_.iterator(), dealing_};
}

DistributedDataset::Iterator DistributedDataset::iterator(int64_t epoch) const {
  return {strategy_, dataset_.iterator(epoch), dealing_};
}

DistributedDataset::Iterator DistributedDataset::restore(std::string_view position) const {
  return {strategy_, dataset_.restore(position), dealing_};
}

int64_t DistributedDataset::cardinality() const {
  const int64_t elements = dataset_.cardinality();
  if (dealing_ == Dealing::global_batch || elements < 0) return elements;
  // What other processes have is only known when they meet.
  if (strategy_.body().other_replicas() != nullptr) return data::kUnknown;
  const int replicas = dealing_ == Dealing::replica_batch ? strategy_.num_replicas_in_sync() : 1;
  return (elements + replicas - 1) / replicas;
}

std::optional<PerReplicas> DistributedDataset::Iterator::next() {
  if (dealing_ != Dealing::global_batch) return next_of_own();
  const std::optional<data::Element> element = elements_.next();
  if (!element) return std::nullopt;
  check_rows(*element);
  const bool is_share = elements_.batch_rows() >= 0;
  rows_ = is_share || element->empty() ? elements_.batch_rows() : (*element)[0].shape().extent(0);
  if (!is_share) return strategy_.split(*element);
  PerReplicas step;
  for (const Tensor& tensor : *element) {
    step.push_back(PerReplica::split_rows(tensor, strategy_.body().span(), rows_));
  }
  return step;
}

/// Takes the next elements of this process's replicas. Where the data set has ended the parts are
/// empty.
DistributedDataset::Iterator::OwnParts DistributedDataset::Iterator::take() {
  const int replicas = strategy_.body().local_replicas();
  const int model = strategy_.body().span().model;  // Neighbours that have the same rows.
  std::optional<data::Element> first = elements_.next();
  if (first) {
    check_rows(*first);
    last_ = *first;
  }
  OwnParts parts;
  parts.values.assign(last_.size(), {});
  for (int r = 0; r < replicas; r += model) {
    Tensors element;
    if (dealing_ == Dealing::process_batch) {
      const ReplicaSpan own{.count = replicas, .all = replicas, .model = model};
      for (const Tensor& tensor : first ? *first : without_rows(last_)) {
        element.push_back(PerReplica::split(tensor, own).value(r));
      }
    } else {
      const std::optional<data::Element> own = r == 0 || !first ? first : elements_.next();
      element = own ? *own : without_rows(last_);
    }
    for (size_t i = 0; i < parts.values.size(); ++i) {
      parts.values[i].insert(parts.values[i].end(), static_cast<size_t>(model), element[i]);
    }
  }
  if (!first) return parts;
  parts.said = 1;
  for (int r = 0; r < replicas; r += model) {
    parts.said += parts.values[0][static_cast<size_t>(r)].shape().extent(0);
  }
  return parts;
}

int64_t DistributedDataset::Iterator::next_rows() {
  if (dealing_ == Dealing::global_batch || strategy_.body().other_replicas() == nullptr) return 0;
  if (!ahead_) ahead_ = take();
  return ahead_->said;
}

/// A step of elements that are this process's own. All processes go on until the data of each have
/// ended.
std::optional<PerReplicas> DistributedDataset::Iterator::next_of_own() {
  OwnParts parts = ahead_ ? std::move(*ahead_) : take();
  ahead_.reset();
  BatchPlace place;
  if (const WorkerGroup* workers = strategy_.body().other_replicas()) {
    const std::vector<int64_t> all =
        heard_.empty() ? workers->all_of(parts.said, "rows of the data") : std::move(heard_);
    heard_.clear();
    place.global_rows = 0;
    bool goes_on = false;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const int64_t own = std::max<int64_t>(all[rank] - 1, 0);
      goes_on |= all[rank] > 0;
      if (static_cast<int>(rank) < workers->rank()) place.begin_row += own;
      place.global_rows += own;
    }
    if (!goes_on) return std::nullopt;
    if (parts.values.empty()) {
      throw InvalidArgument(
          "distributed data set: this process has no element at all, and others have some; its "
          "replicas would not know what to compute on");
    }
    rows_ = place.global_rows;
  } else if (parts.said == 0) {
    return std::nullopt;
  } else {
    rows_ = parts.said - 1;
  }
  PerReplicas step;
  for (Tensors& list : parts.values) step.emplace_back(std::move(list), place);
  return step;
}

}  // namespace tandem::distribute
