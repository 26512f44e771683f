/// Which elements of which variables each parameter server has. By default all variables, laid end
/// to end, are cut into ranges of equal bytes, so that no server has more to do than another:
///
///   variables   |      embedding      | kernel |b|
///   servers     |     0     |     1     |    2   |
///
/// Cuts lie at whole chunks of 64 elements of a variable. With a partitioner variables are cut into
/// as many runs of rows as it says, which the servers take in turn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor_type.h"
#include "tandem/distribute/parameter_server.h"

namespace tandem::distribute {

/// Elements `begin` to `end` of a variable.
struct ServerPiece {
  size_t variable = 0;  ///< Its place in the list of variables.
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
  bool operator==(const ServerPiece&) const = default;
};

class ParameterLayout {
 public:
  /// Throws InvalidArgument where the partitioner wants fewer than 1 shard of a variable.
  ParameterLayout(const TensorTypes& variables, int servers, const Partitioner& partitioner = {});

  int servers() const { return static_cast<int>(pieces_.size()); }

  /// In the order of the variables, without empty ones.
  std::span<const ServerPiece> pieces(int server) const {
    return pieces_[static_cast<size_t>(server)];
  }
  int64_t bytes(int server) const;
  DType dtype(const ServerPiece& piece) const { return variables_[piece.variable].dtype; }

 private:
  void cut_evenly();
  void cut_as(const Partitioner& partitioner);

  const TensorTypes variables_;
  std::vector<std::vector<ServerPiece>> pieces_;  // By server.
};

}  // namespace tandem::distribute
