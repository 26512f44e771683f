/// Finds all that a Trackable reaches, and writes it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/object_graph.h"
#include "tensor/trackable_body.h"

namespace tandem::checkpoint {

/// What a Trackable reaches, nearest first, each object once; the root is the first.
struct ReachedObject {
  std::shared_ptr<TrackableBody> body;
  std::string path;
  bool optional = false;  ///< Whether the edge by which it was reached first is optional.
};

struct ReachedObjects {
  std::vector<ReachedObject> objects;
  ObjectGraph graph;  ///< Nodes in the same order; without attributes.
};

/// Paths, and the order of the objects, are those of a search of the nearest first. With
/// `by_own_names_first` a path has a fallback only where there is no other.
enum class Order { nearest_first, by_own_names_first };

/// `path` is that of the object itself: where it is empty, the object is the root.
ReachedObjects reached_from(const std::shared_ptr<TrackableBody>& object, Order order,
                            const std::string& path = {});

/// What the value of an object is called in a checkpoint.
const char* attribute_of(const TrackedValue& value);

/// Writes all values and the graph. Throws as BundleWriter::write, and what a HostState throws. Of
/// processes that train together and have slots in parts each calls it; in other cases it writes on
/// one of them alone. Returns whether this process has written.
bool save_objects(const Trackable& root, const std::filesystem::path& prefix);

}  // namespace tandem::checkpoint
