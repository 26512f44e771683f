/// How long calls take: by what they cost, or measured on a device.
#pragma once

#include <utility>
#include <vector>

#include "graph/graph.h"

namespace tandem::graph {

/// The time of a call with so many rows on one thread, by its operations and bytes.
double seconds_by_cost(const Node& node, int64_t rows);

/// Measures calls that are worth it, each kind once, on operands of zeros.
class MeasuredSeconds {
 public:
  MeasuredSeconds(devices::DevicePtr device, int64_t rows)
      : device_(std::move(device)), rows_(rows) {}

  /// The time of the call on one thread of the device. By its cost where it is small, where it does
  /// more than compute, and where the device computes by itself.
  double of(const Node& node);

  /// How many kinds of calls were measured.
  size_t measured() const { return known_.size(); }

 private:
  bool is_measurable(const op::Signature& signature, const Node& node) const;
  double measure(const op::Signature& signature) const;

  const devices::DevicePtr device_;
  const int64_t rows_;
  std::vector<std::pair<op::Signature, double>> known_;
};

}  // namespace tandem::graph
