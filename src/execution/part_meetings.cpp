#include "execution/part_meetings.h"

#include <algorithm>
#include <numeric>

namespace tandem::graph {
namespace {

std::vector<size_t> operands_of(const Node& node) {
  std::vector<size_t> operands(node.inputs.size());
  std::iota(operands.begin(), operands.end(), size_t{0});
  return operands;
}

int number(const Node& node, const char* attribute) {
  return static_cast<int>(node.signature.attrs.get<int64_t>(attribute));
}

/// The elements of each replica's part.
int64_t part_elements(const Node& node) {
  return node.signature.attrs.get<Shape>("part").total_extent();
}

int64_t count(const Graph& graph, ValueId value) {
  return graph.at(value).type.shape.total_extent();
}

/// The ranks of so many neighbours, from `first` on.
std::vector<int> neighbours(int first, int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

}  // namespace

std::vector<Move> moves_of_join(const CrossDevicePlan& plan, const Graph& graph, const Node& join) {
  const int64_t elements = part_elements(join);
  const int parts = number(join, "parts");
  std::vector<Move> moves;
  for (int rank = 0; rank < plan.replicas; ++rank) {
    const int part = rank % parts;
    moves.push_back({.from = rank,
                     .from_value = join.inputs[0],
                     .to = neighbours(rank - part, parts),
                     .to_value = join.outputs[0],
                     .end = std::min(elements, count(graph, join.outputs[0]) - part * elements),
                     .shift = part * elements});
  }
  return moves;
}

Sum sum_to_parts(const CrossDevicePlan& plan, const Program& program, size_t instruction) {
  const Node& node = program.instructions()[instruction].node;
  const int64_t elements = part_elements(node);
  const int64_t whole = count(program.graph(), node.inputs[0]);
  const int parts = number(node, "parts");
  Sum sum{.instruction = instruction, .operands = {0}};
  for (int rank = 0; rank < plan.replicas; ++rank) {
    const int part = rank % parts;
    const int64_t begin = part * elements;
    const int64_t end = std::clamp(whole, begin, begin + elements);
    sum.pieces.push_back({.participant = plan.participant_of[static_cast<size_t>(rank)],
                          .begin = begin,
                          .end = end,
                          .targets = {rank},
                          .shift = -begin,
                          .zeros = elements - (end - begin),
                          .sources = neighbours(rank - part, parts)});
  }
  return sum;
}

Sum sum_over_model(const Program& program, size_t instruction) {
  const Node& node = program.instructions()[instruction].node;
  return {.instruction = instruction,
          .operands = operands_of(node),
          .neighbours = number(node, "model")};
}

Sum sum_over_holders(const CrossDevicePlan& plan, const Program& program, size_t instruction) {
  const Node& node = program.instructions()[instruction].node;
  const int parts = number(node, "parts");
  int64_t elements = 0;
  for (ValueId input : node.inputs) elements += count(program.graph(), input);
  Sum sum{.instruction = instruction, .operands = operands_of(node)};
  for (int part = 0; part < parts; ++part) {
    std::vector<int> holders;
    for (int rank = part; rank < plan.replicas; rank += parts) holders.push_back(rank);
    for (Sum::Piece& piece : equal_pieces(plan, elements, holders)) {
      sum.pieces.push_back(std::move(piece));
    }
  }
  return sum;
}

}  // namespace tandem::graph
