/// A value for each replica of a strategy: the same for all, a batch split by rows, or one tensor
/// each.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "tandem/tensor.h"

namespace tandem::distribute {

/// Which of all replicas are those of this process: `count` of them from number `first` on.
struct ReplicaSpan {
  int first = 0;
  int count = 1;
  int all = 1;
  int model = 1;  ///< So many neighbours have the same rows of the batch.

  /// The parts that a batch is cut into, and which of them a replica of this process has.
  int shards() const { return all / model; }
  int shard_of(int replica) const { return (first + replica) / model; }
  /// How many of them the replicas of this process have.
  int own_shards() const { return shard_of(count - 1) - shard_of(0) + 1; }
  bool operator==(const ReplicaSpan&) const = default;
};

/// Where the rows of this process lie within a batch that several processes have.
struct BatchPlace {
  int64_t begin_row = 0;
  int64_t global_rows = -1;  ///< Negative where that is not known.
};

class TANDEM_API PerReplica {
 public:
  PerReplica() = default;
  PerReplica(Tensor same) : whole_(std::move(same)) {}  // NOLINT(google-explicit-constructor)
  explicit PerReplica(Tensors values) : values_(std::make_shared<Tensors>(std::move(values))) {}

  /// `batch` cut by rows into `replicas` parts whose sizes differ by at most one, larger ones
  /// first. No copy. Throws InvalidArgument for a scalar.
  static PerReplica split(const Tensor& batch, int replicas);

  /// The same for replicas of several processes, all of which have the whole batch.
  static PerReplica split(const Tensor& batch, const ReplicaSpan& span);

  /// The same where this process has the rows of its own replicas alone, of a batch of
  /// `global_rows`.
  static PerReplica split_rows(const Tensor& own_rows, const ReplicaSpan& span,
                               int64_t global_rows);

  /// The value of one replica of this process. Throws InvalidArgument where there is no such
  /// replica.
  Tensor value(int replica) const;

  /// "PerReplica:{\n  0: Tensor(...),\n  1: ...}"
  std::string str() const;

  /// For the library's own use.
  explicit PerReplica(std::shared_ptr<const Tensors> values) : values_(std::move(values)) {}
  PerReplica(Tensors values, const BatchPlace& place)
      : place_(place), values_(std::make_shared<Tensors>(std::move(values))) {}
  const Tensor& whole() const { return whole_; }
  bool is_split() const { return span_.count > 0; }
  const ReplicaSpan& span() const { return span_; }
  /// The rows of a split tensor, or of values that know it, within the batch of all processes.
  const BatchPlace& place() const { return place_; }
  const std::shared_ptr<const Tensors>& values() const { return values_; }

 private:
  Tensor whole_;
  ReplicaSpan span_{.count = 0};  // A count of 0: not split.
  BatchPlace place_;
  std::shared_ptr<const Tensors> values_;
};

using PerReplicas = std::vector<PerReplica>;

TANDEM_API std::ostream& operator<<(std::ostream& out, const PerReplica& value);

}  // namespace tandem::distribute
