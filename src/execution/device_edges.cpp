#include "execution/device_edges.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/program.h"

namespace tandem::graph {
namespace {

/// Values that go there and come back are a model in two halves, forward and backward. Values that
/// set out once more, and come back once more, are not.
constexpr int kMostTurns = 1;

}  // namespace

void DeviceEdges::add(const std::string& from, const std::string& to, size_t bytes) {
  auto edge = std::ranges::find_if(
      edges_, [&](const Edge& other) { return other.from == from && other.to == to; });
  if (edge == edges_.end()) edge = edges_.insert(edge, {from, to});
  ++edge->values;
  edge->bytes += bytes;
  auto pair = std::ranges::find_if(pairs_, [&](const Pair& other) {
    return std::pair(other.first, other.second) == std::pair(from, to) ||
           std::pair(other.second, other.first) == std::pair(from, to);
  });
  if (pair == pairs_.end()) pair = pairs_.insert(pair, {from, to});
  if (pair->first != from) {
    std::swap(pair->first, pair->second);
    ++pair->turns;
  }
}

std::string DeviceEdges::str(const std::string& when, Order order) const {
  if (edges_.empty()) return {};
  std::string text = fmt::format("copied between devices {}:\n", when);
  for (const Edge& edge : edges_) {
    text += fmt::format("  {} to {}: {} value{}, {}\n", edge.from, edge.to, edge.values,
                        edge.values == 1 ? "" : "s", scaled(static_cast<double>(edge.bytes), "B"));
  }
  for (const Pair& pair : pairs_) {
    if (order == Order::any || pair.turns <= kMostTurns) continue;
    text += fmt::format(
        "  warning: ping-pong: values change direction between {} and {} {} times in a call, and "
        "each time one device waits for the other; compute what follows each other on one device\n",
        std::min(pair.first, pair.second), std::max(pair.first, pair.second), pair.turns);
  }
  return text;
}

}  // namespace tandem::graph
