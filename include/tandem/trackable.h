/// A Trackable is what a checkpoint saves and restores: a value, or a node with named children that
/// are Trackables in turn. The handle is cheap and copies name the same node, so an object that is
/// made of state derives from it, or holds one, and may itself be copied.
///
/// A layer that makes its variables late tracks them when it makes them. If a checkpoint was
/// restored before, their values are waiting and are given to them at that moment.
///
/// Tracking and saving the same nodes from several threads at once is the caller's to order. A node
/// does not become a descendant of itself: it would never be freed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tandem/variable.h"

namespace tandem {

/// Small state on the host, such as the position in a data set. T is std::string (any bytes),
/// int64_t, float or double. Both functions are called by the thread that saves, restores or
/// tracks; `restore` gets what `save` returned, perhaps in another process. TensorFlow sees a
/// double as a float, the type of Keras's numbers: the full value is saved beside it, and where
/// that is missing a value here that rounds to the float stays as it is.
template <class T>
struct HostState {
  std::function<T()> save;
  std::function<void(const T&)> restore;
};

struct TrackOptions {
  /// Checkpoints may lack it: CheckpointStatus::assert_consumed does not miss it.
  bool optional = false;
  /// Restoring follows this name only for what has not found a value by another one.
  bool fallback = false;
  /// Other programs' checkpoints, or older ones, have this name: a fallback, under which nothing is
  /// saved.
  bool restore_only = false;
  /// A child that has the name already gives way. Restored values that the checkpoint has under the
  /// name were for that one.
  bool overwrite = false;
};

struct TrackableBody;

class TANDEM_API Trackable {
 public:
  /// A node without children.
  Trackable();

  /// A value. All Trackables of one variable are the same to a checkpoint, which saves it once.
  /// Throws FailedPrecondition for an empty handle.
  Trackable(const Variable& variable);      // NOLINT(google-explicit-constructor)
  Trackable(HostState<std::string> state);  // NOLINT(google-explicit-constructor)
  Trackable(HostState<int64_t> state);      // NOLINT(google-explicit-constructor)
  Trackable(HostState<float> state);        // NOLINT(google-explicit-constructor)
  Trackable(HostState<double> state);       // NOLINT(google-explicit-constructor)

  /// Names `child`, which may have other names elsewhere too. Throws InvalidArgument when the name
  /// is empty or another child has it, FailedPrecondition when this is a value; and, where a
  /// restored checkpoint has a value for it, as train::Checkpoint::restore does.
  void track(const std::string& name, const Trackable& child,
             const TrackOptions& options = {}) const;

  /// The names of the children, in the order they were tracked; without those that are only
  /// restored.
  std::vector<std::string> tracked_names() const;

  /// For the library's own use.
  const std::shared_ptr<TrackableBody>& trackable_body() const { return body_; }

 private:
  std::shared_ptr<TrackableBody> body_;
};

using NamedTrackables = std::vector<std::pair<std::string, Trackable>>;

}  // namespace tandem
