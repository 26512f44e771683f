/// One checkpoint on its way into objects: what was found at once, and what waits for objects to
/// come.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/bundle_reader.h"
#include "checkpoint/object_graph.h"
#include "tensor/trackable.h"

namespace tandem::checkpoint {

class Restoration final : public WaitingValues, public std::enable_shared_from_this<Restoration> {
 public:
  /// Opens the checkpoint. Throws as BundleReader, and InvalidArgument when it was not made of
  /// objects.
  explicit Restoration(const std::filesystem::path& prefix);

  /// Gives `root` and all it reaches their values; what it tracks later gets them then. Checks
  /// everything first: when it throws, no variable has changed, unless a HostState's own function
  /// threw.
  void restore(const Trackable& root);

  void child_tracked(int node, const TrackedChild& child) override;

  const std::filesystem::path& prefix() const { return reader_.prefix(); }

  /// Paths of the checkpoint's values that no object has taken.
  std::vector<std::string> untaken() const;

  /// Whether this object has been given its value.
  bool has_restored(const std::shared_ptr<TrackableBody>& body) const {
    return restored_.contains(identity_of(body));
  }

 private:
  struct Assignment {
    std::shared_ptr<TrackableBody> body;
    std::string key;
  };
  struct Match {
    std::shared_ptr<TrackableBody> body;
    int node = 0;
  };

  std::vector<Match> matches_from(Match first) const;
  void assign(const std::vector<Match>& matches);
  void check(const Variable& variable, const std::string& key) const;
  void read_variables(const std::vector<Assignment>& assignments) const;
  std::vector<std::function<void()>> read_states(const std::vector<Assignment>& assignments) const;
  bool has_more_children(const Match& match) const;
  const ObjectGraph::Node& node(int number) const {
    return graph_.nodes[static_cast<size_t>(number)];
  }

  const BundleReader reader_;
  ObjectGraph graph_;
  std::vector<bool> taken_;  // By node.
  std::set<std::weak_ptr<const void>, std::owner_less<>> restored_;
};

}  // namespace tandem::checkpoint
