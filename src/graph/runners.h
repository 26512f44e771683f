/// Who runs a program together: the replicas of this process, and perhaps those of others.
#pragma once

#include <memory>

#include "op/group.h"

namespace tandem::graph {

struct Agreement;

struct Runners {
  /// Those of one process.
  Runners(int replicas) : local(replicas), all(replicas) {}  // NOLINT(google-explicit-constructor)
  Runners(int local, int all, std::shared_ptr<op::Group> group,
          std::shared_ptr<Agreement> agreement = nullptr)
      : local(local), all(all), group(std::move(group)), agreement(std::move(agreement)) {}

  int local;                     ///< The replicas of this process,
  int all;                       ///< and of all processes.
  int first = 0;                 ///< The number of this process's first replica among all.
  bool single_threaded = false;  ///< Each replica is one thread, so that bits are reproducible.
  bool is_hosted = false;  ///< What GPUs exchange with other processes is in the host's memory.
  /// The replicas' devices copy and sum on queues beside those that compute.
  bool have_exchange_queues = false;
  std::shared_ptr<op::Group> group;  ///< The processes; null: this one alone.
  /// The processes of a mesh that have the same rows as this one, with their parts of the
  /// weights, and those that have the same parts of the weights; null: there is no mesh.
  std::shared_ptr<op::Group> along_model{};
  std::shared_ptr<op::Group> along_data{};
  /// What rides along with the last sum of a run; null: nothing.
  std::shared_ptr<Agreement> agreement;
  /// Sums of more bytes than this are exchanged in pieces of it.
  size_t bucket_bytes = size_t{1} << 20;
};

}  // namespace tandem::graph
