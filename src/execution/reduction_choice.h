/// Which way replicas in several memory spaces sum their values, and why.
#pragma once

#include <string>

#include "collective/device_group.h"
#include "execution/replicas.h"

namespace tandem::graph {

/// What a library could do for all sums of the replicas, where nothing else was asked for.
collective::LibrarySums library_sums(const Replicas& replicas);

struct SumDescription {
  size_t bytes = 0;         ///< The bytes of each replica's values.
  bool is_update = false;   ///< Gradients that go into an update and nowhere else.
  std::string device;       ///< The one that would sum alone.
  bool is_central = false;  ///< The variables are on that device and nowhere else.
  collective::LibrarySums library{};
};

struct ReductionChoice {
  /// The way that was chosen; automatic where a library sums.
  distribute::CrossDeviceReduction how{};
  std::string text;  ///< "ranges, since ..", for people.

  bool is_by_library() const { return how == distribute::CrossDeviceReduction::automatic; }
};

ReductionChoice choose_reduction(distribute::CrossDeviceReduction asked, const SumDescription& sum);

}  // namespace tandem::graph
