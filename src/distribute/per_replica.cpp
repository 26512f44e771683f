#include "tandem/per_replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "execution/run_arguments.h"
#include "tandem/error.h"

namespace tandem::distribute {

PerReplica PerReplica::split(const Tensor& batch, int replicas) {
  if (batch.rank() == 0) {
    throw InvalidArgument(
        "split: a scalar has no rows to split; pass it as it is to give it to all replicas");
  }
  PerReplica result(batch);
  result.parts_ = replicas;
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
  if (parts_ == 0) return whole_;
  const auto shard = graph::shard_of(whole_.shape().extent(0), replica, parts_);
  return whole_.rows(shard.row_offset, shard.row_offset + shard.rows);
}

std::ostream& operator<<(std::ostream& out, const PerReplica& value) { return out << value.str(); }

std::string PerReplica::str() const {
  const int count = values_ ? static_cast<int>(values_->size()) : std::max(1, parts_);
  std::string text = "PerReplica:{";
  for (int i = 0; i < count; ++i) text += fmt::format("\n  {}: {}", i, value(i).str());
  return text + "\n}";
}

}  // namespace tandem::distribute
