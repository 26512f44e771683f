/// The graph of objects that a checkpoint was made of, as TensorFlow stores it under one key: nodes
/// with named children, and with the keys of their values. Node 0 is the root.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::checkpoint {

inline constexpr const char* kObjectGraphKey = "_CHECKPOINTABLE_OBJECT_GRAPH";
/// The root's count of its saves.
inline constexpr const char* kSaveCounter = "save_counter";
/// What the values of variables and numbers, and of bytes, are called.
inline constexpr const char* kVariableValue = "VARIABLE_VALUE";
inline constexpr const char* kBytesValue = "py_state";

struct ObjectGraph {
  struct Child {
    int node = 0;
    std::string name;
  };
  struct Attribute {
    std::string name;
    std::string full_name;  ///< The variable's own name.
    std::string key;
  };
  struct Node {
    std::vector<Child> children;
    std::vector<Attribute> attributes;
  };
  std::vector<Node> nodes;
};

std::string encode(const ObjectGraph& graph);

/// Throws DataLoss, also when a child is no node.
ObjectGraph decode_graph(std::string_view bytes);

/// For each node, whether it or one of its descendants has a value.
std::vector<bool> nodes_with_values(const ObjectGraph& graph);

/// "model/layer-0" and "kernel" -> "model/layer-0/kernel"; slashes and dots in names are escaped.
std::string joined_path(const std::string& path, const std::string& name);

/// "model/kernel" -> "model/kernel/.ATTRIBUTES/VARIABLE_VALUE".
std::string key_of(const std::string& path, const std::string& attribute);

/// The key of the full value of a number that is rounded under `key`. The graph of objects
/// does not have it, so TensorFlow does not miss an object for it.
std::string full_value_key(const std::string& key);

/// A path of names from the root to each node; empty for the root and for what it does not reach.
std::vector<std::string> paths(const ObjectGraph& graph);

}  // namespace tandem::checkpoint
