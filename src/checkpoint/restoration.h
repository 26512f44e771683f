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
#include "tensor/trackable_body.h"

namespace tandem::checkpoint {

class Restoration final : public WaitingValues, public std::enable_shared_from_this<Restoration> {
 public:
  /// Opens the checkpoint. Throws as BundleReader, and InvalidArgument when it was not made of
  /// objects.
  explicit Restoration(const std::filesystem::path& prefix);
  ~Restoration() override;
  Restoration(const Restoration&) = delete;
  Restoration& operator=(const Restoration&) = delete;

  /// Gives `root` and all it reaches their values; what it tracks later gets them then. Checks
  /// everything first: when it throws, no variable has changed, unless a HostState's own function
  /// threw.
  void restore(const Trackable& root);

  void on_child_tracked(int node, const TrackedChild& child) override;

  const std::filesystem::path& prefix() const { return reader_.prefix(); }

  /// Paths of the checkpoint's values that no object has taken, but for the count of its saves.
  std::vector<std::string> untaken() const;

  /// Whether the checkpoint's root has a child of this name.
  bool names(const std::string& child) const;

  /// Whether to log a warning when nobody can take a value any more, if nobody has.
  void warn_at_end(bool warn) { warns_at_end_ = warn; }

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
  std::function<void()> restoring(const HostState<double>& state, const std::string& key) const;
  bool has_more_children(const Match& match) const;
  bool has_taken_values() const;
  bool is_save_counter(size_t node) const;
  const ObjectGraph::Node& node(int number) const {
    return graph_.nodes[static_cast<size_t>(number)];
  }

  const BundleReader reader_;
  const ObjectGraph graph_;
  const std::vector<bool> with_values_;  // The nodes that have values below them.
  std::vector<bool> taken_;              // The nodes whose values were taken.
  bool warns_at_end_ = false;
  std::set<std::weak_ptr<const void>, std::owner_less<>> restored_;
};

}  // namespace tandem::checkpoint
