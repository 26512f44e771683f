#include "execution/bucket_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::graph {
namespace {

/// The least bytes of a bucket of gradients. Each costs a few commands and waits; a larger one
/// begins later.
constexpr size_t kBucketBytes = 1 << 20;

/// A gradient that can be summed before its collective's turn comes.
struct EarlyOperand {
  size_t operand;
  size_t ready;  ///< The first instruction after the one that computes it.
  size_t bytes;
};

size_t computed_at(const Program& program, ValueId value) {
  const auto computes = [&](const Instruction& instruction) {
    const ValueIds& outputs = instruction.node.outputs;
    return std::ranges::find(outputs, value) != outputs.end();
  };
  const auto& instructions = program.instructions();
  return static_cast<size_t>(std::ranges::find_if(instructions, computes) - instructions.begin());
}

/// The operands of a sum that lie still from where they are computed to where the sums are used, in
/// the order in which they are computed: the sum takes their own place, and nobody else reads them.
std::vector<EarlyOperand> early_operands(const Sum& sum, const Program& program, const Uses& uses) {
  const Graph& graph = program.graph();
  const Node& node = program.instructions()[sum.instruction].node;
  const auto& buffer_of = program.memory().buffer_of;
  std::vector<EarlyOperand> early;
  for (size_t k : sum.operands) {
    const ValueId input = graph.storage_of(node.inputs[k]);
    const ValueId output = graph.storage_of(node.outputs[k]);
    const bool stays = buffer_of[input] >= 0 && buffer_of[input] == buffer_of[output];
    if (!stays || uses.of(input).size() != 1) continue;
    early.push_back({k, computed_at(program, input) + 1, graph.at(input).type.bytes()});
  }
  std::ranges::stable_sort(early, {}, &EarlyOperand::ready);
  return early;
}

/// Sums `bucket` before instruction `ready`, behind the buckets that are ready there already.
void insert_early(size_t ready, const Sum& bucket, std::vector<Superstep>& all) {
  auto place = std::ranges::find_if(
      all, [&](const Superstep& step) { return step.computes() && step.end >= ready; });
  Superstep rest;
  if (place != all.end() && place->begin < ready) {
    rest = {.begin = ready, .end = place->end};
    place->end = ready;
    ++place;
  }
  while (place != all.end() && place->early) ++place;
  place = all.insert(place, {.sums = {bucket}, .early = true}) + 1;
  if (rest.computes()) all.insert(place, rest);
}

}  // namespace

void take_buckets(Sum& sum, const Program& program, const Uses& uses, CrossDevicePlan& plan) {
  const auto has_team = [](const Participant& p) { return p.device->works_on_threads(); };
  if (plan.participants.size() < 2 || std::ranges::any_of(plan.participants, has_team)) return;
  Sum bucket{
      .instruction = sum.instruction, .pieces = sum.pieces, .is_by_library = sum.is_by_library};
  size_t bytes = 0;
  size_t early_bytes = 0;
  for (const EarlyOperand& operand : early_operands(sum, program, uses)) {
    bucket.operands.push_back(operand.operand);
    bytes += operand.bytes;
    if (bytes < kBucketBytes) continue;
    if (operand.ready >= sum.instruction) break;
    early_bytes += bytes;
    bytes = 0;
    std::erase_if(sum.operands, [&](size_t k) {
      return std::ranges::find(bucket.operands, k) != bucket.operands.end();
    });
    std::ranges::sort(bucket.operands);
    insert_early(operand.ready, bucket, plan.supersteps);
    bucket.operands.clear();
  }
  if (early_bytes == 0) return;
  plan.reduction += fmt::format("; {} of it in buckets, while the backward pass goes on",
                                scaled(static_cast<double>(early_bytes), "B"));
}

}  // namespace tandem::graph
