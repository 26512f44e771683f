/// What a Trackable handle points to.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tandem/trackable.h"

namespace tandem {

struct TrackedChild {
  std::string name;
  std::shared_ptr<TrackableBody> body;
  TrackOptions options{};
  bool of_root_only = false;  ///< A child only where its parent is the root of a checkpoint.

  bool is_fallback() const { return options.fallback || options.restore_only; }
};

/// Holds values for children to come, of a node that it knows by number.
class WaitingValues {
 public:
  virtual ~WaitingValues() = default;
  virtual void on_child_tracked(int node, const TrackedChild& child) = 0;
};

using TrackedValue = std::variant<std::monostate, Variable, HostState<std::string>,
                                  HostState<int64_t>, HostState<float>, HostState<double>>;

struct TrackableBody {
  TrackedValue value;
  std::vector<TrackedChild> children;

  std::shared_ptr<WaitingValues> waiting;
  int waiting_node = 0;

  bool has_value() const { return value.index() != 0; }
};

/// What a node stands for: the variable itself for all nodes of one variable, else the node.
std::shared_ptr<const void> identity_of(const std::shared_ptr<TrackableBody>& body);

}  // namespace tandem
