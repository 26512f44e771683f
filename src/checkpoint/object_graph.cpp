#include "checkpoint/object_graph.h"

#include <fmt/format.h>

#include "checkpoint/wire.h"
#include "tandem/error.h"

namespace tandem::checkpoint {
namespace {

ObjectGraph::Child decode_child(std::string_view bytes) {
  ObjectGraph::Child child;
  for (WireReader in(bytes); in.next();) {
    if (in.field() == 1) {
      const int64_t node = in.number();
      child.node = node < 0 || node > INT32_MAX ? -1 : static_cast<int>(node);
    }
    if (in.field() == 2) child.name = in.text();
  }
  return child;
}

ObjectGraph::Attribute decode_attribute(std::string_view bytes) {
  ObjectGraph::Attribute attribute;
  for (WireReader in(bytes); in.next();) {
    if (in.field() == 1) attribute.name = in.text();
    if (in.field() == 2) attribute.full_name = in.text();
    if (in.field() == 3) attribute.key = in.text();
  }
  return attribute;
}

ObjectGraph::Node decode_node(std::string_view bytes) {
  ObjectGraph::Node node;
  for (WireReader in(bytes); in.next();) {
    if (in.field() == 1) node.children.push_back(decode_child(in.text()));
    if (in.field() == 2) node.attributes.push_back(decode_attribute(in.text()));
  }
  return node;
}

}  // namespace

std::vector<bool> nodes_with_values(const ObjectGraph& graph) {
  const size_t count = graph.nodes.size();
  std::vector<std::vector<size_t>> parents(count);
  std::vector<size_t> open;
  std::vector<bool> with_values(count);
  for (size_t i = 0; i < count; ++i) {
    for (const auto& child : graph.nodes[i].children) {
      parents[static_cast<size_t>(child.node)].push_back(i);
    }
    if (graph.nodes[i].attributes.empty()) continue;
    with_values[i] = true;
    open.push_back(i);
  }
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    for (const size_t parent : parents[node]) {
      if (with_values[parent]) continue;
      with_values[parent] = true;
      open.push_back(parent);
    }
  }
  return with_values;
}

std::string encode(const ObjectGraph& graph) {
  const std::vector<bool> with_values = nodes_with_values(graph);
  WireWriter out;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    WireWriter node;
    for (const auto& child : graph.nodes[i].children) {
      node.message(1, WireWriter().number(1, child.node).text(2, child.name));
    }
    for (const auto& attribute : graph.nodes[i].attributes) {
      node.message(
          2,
          WireWriter().text(1, attribute.name).text(2, attribute.full_name).text(3, attribute.key));
    }
    node.message(5, WireWriter().number(1, with_values[i] ? 1 : 0));
    out.message(1, node);
  }
  return out.bytes();
}

ObjectGraph decode_graph(std::string_view bytes) {
  ObjectGraph graph;
  for (WireReader in(bytes); in.next();) {
    if (in.field() == 1) graph.nodes.push_back(decode_node(in.text()));
  }
  if (graph.nodes.empty()) throw DataLoss("the graph of objects has no root");
  for (const auto& node : graph.nodes) {
    for (const auto& child : node.children) {
      if (child.node >= 0 && static_cast<size_t>(child.node) < graph.nodes.size()) continue;
      throw DataLoss(fmt::format("the graph of objects has {} nodes, '{}' should be number {}",
                                 graph.nodes.size(), child.name, child.node));
    }
  }
  return graph;
}

std::string joined_path(const std::string& path, const std::string& name) {
  std::string joined = path;
  if (!joined.empty()) joined += '/';
  for (const char c : name) {
    if (c == '.') {
      joined += "..";
    } else if (c == '/') {
      joined += ".S";
    } else {
      joined += c;
    }
  }
  return joined;
}

std::string key_of(const std::string& path, const std::string& attribute) {
  return fmt::format("{}{}.ATTRIBUTES/{}", path, path.empty() ? "" : "/", attribute);
}

std::string full_value_key(const std::string& key) { return key + "/float64"; }

std::vector<std::string> paths(const ObjectGraph& graph) {
  std::vector<std::string> found(graph.nodes.size());
  std::vector<bool> seen(graph.nodes.size());
  std::vector<size_t> queue = {0};
  seen[0] = true;
  for (size_t at = 0; at < queue.size(); ++at) {
    for (const auto& child : graph.nodes[queue[at]].children) {
      const auto node = static_cast<size_t>(child.node);
      if (seen[node]) continue;
      seen[node] = true;
      found[node] = joined_path(found[queue[at]], child.name);
      queue.push_back(node);
    }
  }
  return found;
}

}  // namespace tandem::checkpoint
