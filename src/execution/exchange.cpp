#include "execution/exchange.h"

#include <algorithm>
#include <map>

#include "core/alignment.h"
#include "core/compute_scope.h"
#include "device/copies.h"
#include "op/registry.h"

namespace tandem::graph {
namespace {

/// Large enough that a copy's own cost does not count, small enough to stay in a cache.
constexpr int64_t kBlock = 64 << 10;  // Elements.

/// Counts what goes from one memory space to another.
void copy(const devices::Device& from, const void* source, const devices::Device& to, void* target,
          size_t bytes) {
  if (source == target && &from.space() == &to.space()) return;
  if (&from.space() != &to.space()) devices::count_copy(from.name(), to.name(), bytes);
  devices::copy_bytes(to.space(), target, from.space(), source, bytes);
}

char* at(void* base, size_t bytes) { return static_cast<char*>(base) + bytes; }

op::ExecutablePtr prepare_add(DType dtype, int64_t count, const devices::Device& device) {
  const op::TensorType type{dtype, {count}};
  return op::Registry::instance().prepare({&op::find_op("add"), {type, type}, {type}, {}, {}},
                                          device, 1);
}

void add(const op::Executable& executable, void* a, void* b, void* out) {
  constexpr int kOperands[] = {0, 1, 2};
  void* const slots[] = {a, b, out};
  const op::StepScalars step;
  op::Launch launch;
  launch.slots = slots;
  launch.operands = kOperands;
  launch.inputs = 2;
  launch.outputs = 1;
  launch.step = &step;
  executable.run(launch);
}

}  // namespace

PartialSum::PartialSum(const Program& program, const Sum& sum, const Sum::Part& part,
                       const Site& site, int replicas)
    : device_(site.device),
      inputs_(program.instructions()[sum.instruction].node.inputs),
      outputs_(program.instructions()[sum.instruction].node.outputs),
      targets_(part.targets),
      replicas_(replicas) {
  const core::ComputeScope computing;
  std::map<std::pair<DType, int64_t>, op::ExecutablePtr> known;
  int64_t start = 0;
  for (size_t k = 0; k < inputs_.size(); ++k) {
    const op::TensorType& type = program.graph().at(inputs_[k]).type;
    element_bytes_.push_back(size_of(type.dtype));
    const int64_t size = type.shape.total_extent();
    const int64_t end = std::clamp<int64_t>(part.end - start, 0, size);
    for (int64_t b = std::clamp<int64_t>(part.begin - start, 0, size); b < end; b += kBlock) {
      const int64_t count = std::min(kBlock, end - b);
      auto& executable = known[{type.dtype, count}];
      if (!executable) executable = prepare_add(type.dtype, count, *device_);
      blocks_.push_back({k, b, count, executable});
      block_bytes_ = std::max(block_bytes_, static_cast<size_t>(count) * element_bytes_[k]);
    }
    start += size;
  }
  block_bytes_ = core::aligned(block_bytes_);
}

void PartialSum::run(const std::vector<BoundReplica>& replicas, void* staging) const {
  const core::ComputeScope computing;
  for (const Block& block : blocks_) sum_block(block, replicas, static_cast<char*>(staging));
}

/// In the order of the ranks. The sum is made aside: outputs may lie where inputs lay.
void PartialSum::sum_block(const Block& block, const std::vector<BoundReplica>& replicas,
                           char* sum) const {
  char* const incoming = sum + block_bytes_;
  const size_t bytes = static_cast<size_t>(block.count) * element_bytes_[block.operand];
  const size_t offset = static_cast<size_t>(block.begin) * element_bytes_[block.operand];
  const auto operand_of = [&](int rank, char* landing) {
    const BoundReplica& replica = replicas[static_cast<size_t>(rank)];
    char* const own = at(replica.slot(inputs_[block.operand]), offset);
    if (&replica.device->space() == &device_->space()) return own;
    copy(*replica.device, own, *device_, landing, bytes);
    return landing;
  };
  char* so_far = operand_of(0, sum);
  for (int rank = 1; rank < replicas_; ++rank) {
    add(*block.add, so_far, operand_of(rank, incoming), sum);
    so_far = sum;
  }
  for (int rank : targets_) {
    const BoundReplica& replica = replicas[static_cast<size_t>(rank)];
    copy(*device_, sum, *replica.device, at(replica.slot(outputs_[block.operand]), offset), bytes);
  }
}

const devices::DevicePtr& source_of(const Move& move, const Graph& graph,
                                    const std::vector<BoundReplica>& replicas) {
  if (move.from >= 0) return replicas[static_cast<size_t>(move.from)].device;
  return graph.at(move.from_value).range.block->components()[0]->device();
}

void make_move(const Move& move, const Graph& graph, const std::vector<BoundReplica>& replicas) {
  const devices::Device& source = *source_of(move, graph, replicas);
  const Value& value = graph.at(move.from_value);
  void* const base = move.from >= 0 ? replicas[static_cast<size_t>(move.from)].slot(move.from_value)
                                    : value.range.data(source);
  const size_t element = size_of(value.type.dtype);
  const size_t offset = static_cast<size_t>(move.begin) * element;
  const size_t bytes = static_cast<size_t>(move.end - move.begin) * element;
  for (int rank : move.to) {
    const BoundReplica& target = replicas[static_cast<size_t>(rank)];
    copy(source, at(base, offset), *target.device, at(target.slot(move.to_value), offset), bytes);
  }
}

}  // namespace tandem::graph
