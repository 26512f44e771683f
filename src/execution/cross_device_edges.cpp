// What a CrossDevicePlan moves between devices in each run, for people.
#include <algorithm>

#include "execution/cross_device_plan.h"
#include "execution/device_edges.h"

namespace tandem::graph {
namespace {

/// Adds what the pieces of a sum bring together, and where the sums go.
void add_edges(const Sum& sum, const CrossDevicePlan& plan, const Program& program,
               DeviceEdges& edges) {
  const Node& node = program.instructions()[sum.instruction].node;
  const auto device_of = [&](int rank) -> const devices::Device& {
    const auto participant = static_cast<size_t>(plan.participant_of[static_cast<size_t>(rank)]);
    return *plan.participants[participant].device;
  };
  for (const Sum::Piece& piece : sum.pieces) {
    const devices::Device& own = *plan.participants[static_cast<size_t>(piece.participant)].device;
    size_t bytes = 0;
    int64_t start = 0;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const op::TensorType& type = program.graph().at(node.inputs[k]).type;
      const int64_t size = type.shape.total_extent();
      const int64_t begin = std::clamp<int64_t>(piece.begin - start, 0, size);
      const int64_t end = std::clamp<int64_t>(piece.end - start, 0, size);
      start += size;
      if (std::ranges::find(sum.operands, k) == sum.operands.end()) continue;
      bytes += static_cast<size_t>(end - begin) * size_of(type.dtype);
    }
    if (bytes == 0) continue;
    for (int rank = 0; rank < plan.replicas; ++rank) {
      const bool is_summed =
          piece.sources.empty() || std::ranges::find(piece.sources, rank) != piece.sources.end();
      if (is_summed && &device_of(rank) != &own) {
        edges.add(device_of(rank).name(), own.name(), bytes);
      }
    }
    for (int rank : piece.targets) {
      if (&device_of(rank) != &own) edges.add(own.name(), device_of(rank).name(), bytes);
    }
  }
}

}  // namespace

/// Sums and moves meet in any case, so the order in which they go is no ping-pong: one direction
/// after the other.
std::string explain_edges(const CrossDevicePlan& plan, const Program& program) {
  DeviceEdges edges;
  const Graph& graph = program.graph();
  for (const Superstep& superstep : plan.supersteps) {
    for (const Sum& sum : superstep.sums) add_edges(sum, plan, program, edges);
    for (const Move& move : superstep.moves) {
      const op::TensorType& type = graph.at(move.from_value).type;
      const auto name_of = [&](int rank) {
        const auto participant =
            static_cast<size_t>(plan.participant_of[static_cast<size_t>(rank)]);
        return plan.participants[participant].device->name();
      };
      const std::string from =
          move.from >= 0 ? name_of(move.from)
                         : graph.at(move.from_value).range.block->components()[0]->device()->name();
      const size_t bytes = static_cast<size_t>(move.end - move.begin) * size_of(type.dtype);
      for (int rank : move.to) {
        if (name_of(rank) != from) edges.add(from, name_of(rank), bytes);
      }
    }
  }
  return edges.str("in each run, the batch aside", DeviceEdges::Order::any);
}

}  // namespace tandem::graph
