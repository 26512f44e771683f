/// Finds all that a Trackable reaches, and writes it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/object_graph.h"
#include "tensor/trackable.h"

namespace tandem::checkpoint {

/// What a Trackable reaches, nearest first, each object once; the root is the first.
struct ReachedObject {
  std::shared_ptr<TrackableBody> body;
  std::string path;
  bool optional = false;  ///< By the edge it was reached first.
};

struct ReachedObjects {
  std::vector<ReachedObject> objects;
  ObjectGraph graph;  ///< Nodes in the same order; without attributes.
};

ReachedObjects reached_from(const Trackable& root);

/// What the value of an object is called in a checkpoint.
const char* attribute_of(const TrackedValue& value);

/// Writes all values and the graph. Throws as BundleWriter::write, and what a HostState throws.
void save_objects(const Trackable& root, const std::filesystem::path& prefix);

}  // namespace tandem::checkpoint
