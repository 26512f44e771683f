/// Which way replicas in several memory spaces sum their values, and why.
#pragma once

#include <string>

#include "tandem/cross_device_reduction.h"

namespace tandem::graph {

struct SumDescription {
  size_t bytes = 0;         ///< The bytes of each replica's values.
  bool is_update = false;   ///< Gradients that go into an update and nowhere else.
  std::string device;       ///< The one that would sum alone.
  bool is_central = false;  ///< The variables are on that device and nowhere else.
};

struct ReductionChoice {
  distribute::CrossDeviceReduction how{};  ///< The way that was chosen; never automatic.
  std::string text;                        ///< "ranges, since ..", for people.
};

ReductionChoice choose_reduction(distribute::CrossDeviceReduction asked, const SumDescription& sum);

}  // namespace tandem::graph
