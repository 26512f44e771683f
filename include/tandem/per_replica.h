/// A value for each replica of a strategy: the same for all, a batch split by rows, or one tensor
/// each.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "tandem/tensor.h"

namespace tandem::distribute {

class TANDEM_API PerReplica {
 public:
  PerReplica() = default;
  PerReplica(Tensor same) : whole_(std::move(same)) {}  // NOLINT(google-explicit-constructor)
  explicit PerReplica(Tensors values) : values_(std::make_shared<Tensors>(std::move(values))) {}

  /// `batch` cut by rows into `replicas` parts whose sizes differ by at most one, larger ones
  /// first. No copy. Throws InvalidArgument for a scalar.
  static PerReplica split(const Tensor& batch, int replicas);

  /// The value of one replica. Throws InvalidArgument where there is no such replica.
  Tensor value(int replica) const;

  /// "PerReplica:{\n  0: Tensor(...),\n  1: ...}"
  std::string str() const;

  /// For the library's own use.
  explicit PerReplica(std::shared_ptr<const Tensors> values) : values_(std::move(values)) {}
  const Tensor& whole() const { return whole_; }
  int parts() const { return parts_; }
  const std::shared_ptr<const Tensors>& values() const { return values_; }

 private:
  Tensor whole_;
  int parts_ = 0;  // 0: not split.
  std::shared_ptr<const Tensors> values_;
};

using PerReplicas = std::vector<PerReplica>;

TANDEM_API std::ostream& operator<<(std::ostream& out, const PerReplica& value);

}  // namespace tandem::distribute
