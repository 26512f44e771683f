#include "tandem/distribute/per_replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "execution/run_arguments.h"
#include "tandem/error.h"

namespace tandem::distribute {

PerReplica PerReplica::split(const Tensor& batch, int replicas) {
  return split(batch, {.count = replicas, .all = replicas});
}

PerReplica PerReplica::split(const Tensor& batch, const ReplicaSpan& span) {
  if (batch.rank() == 0) {
    throw InvalidArgument(
        "split: a scalar has no rows to split; pass it as it is to give it to all replicas");
  }
  PerReplica result(batch);
  result.span_ = span;
  result.place_.global_rows = batch.shape().extent(0);
  return result;
}

PerReplica PerReplica::split_rows(const Tensor& own_rows, const ReplicaSpan& span,
                                  int64_t global_rows) {
  PerReplica result = split(own_rows, span);
  const auto first = graph::shard_of(global_rows, span.shard_of(0), span.shards());
  result.place_ = {first.row_offset, global_rows};
  return result;
}

Tensor PerReplica::value(int replica) const {
  if (values_) {
    if (replica >= 0 && replica < static_cast<int>(values_->size())) {
      return (*values_)[static_cast<size_t>(replica)];
    }
    throw InvalidArgument(
        fmt::format("PerReplica: replica {} asked for, there are {}", replica, values_->size()));
  }
  if (!is_split()) return whole_;
  const auto shard = graph::shard_of(place_.global_rows, span_.shard_of(replica), span_.shards());
  const int64_t begin = shard.row_offset - place_.begin_row;
  return whole_.rows(begin, begin + shard.rows);
}

std::ostream& operator<<(std::ostream& out, const PerReplica& value) { return out << value.str(); }

std::string PerReplica::str() const {
  const int count = values_ ? static_cast<int>(values_->size()) : std::max(1, span_.count);
  std::string text = "PerReplica:{";
  for (int i = 0; i < count; ++i) text += fmt::format("\n  {}: {}", i, value(i).str());
  return text + "\n}";
}

}  // namespace tandem::distribute
