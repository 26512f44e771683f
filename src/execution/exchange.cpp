#include "execution/exchange.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/alignment.h"
#include "core/compute_scope.h"
#include "device/copies.h"
#include "device/transfer.h"
#include "op/registry.h"
#include "tandem/config.h"

namespace tandem::graph {
namespace {

/// The elements that are summed at once. For a CPU a tile stays in a cache; on a queue each costs
/// commands, so it is large.
int64_t tile_elements(const devices::Device& device) {
  return device.works_on_threads() ? 64 << 10 : 1 << 20;
}

/// Behind all that both devices were asked, which is nothing that matters: everybody has arrived.
void copy(devices::Queue& own_queue, devices::Device& from, const void* source, devices::Device& to,
          void* target, size_t bytes) {
  if (source == target && &from.space() == &to.space()) return;
  if (&from.space() != &to.space()) devices::count_copy(from.name(), to.name(), bytes);
  if (!own_queue.immediate()) {
    own_queue.copy(to.space(), target, from.space(), source, bytes);
    return;
  }
  devices::Queue& queue = (from.works_on_threads() ? to : from).queue();
  const devices::Event copied =
      queue.submit([&] { queue.copy(to.space(), target, from.space(), source, bytes); });
  copied.wait(config::wait_deadline());
}

char* at(void* base, size_t bytes) { return static_cast<char*>(base) + bytes; }

op::ExecutablePtr prepare_add(DType dtype, int64_t count, const devices::Device& device) {
  const op::TensorType type{dtype, {count}};
  return op::Registry::instance().prepare({&op::find_op("add"), {type, type}, {type}, {}, {}},
                                          device, 1);
}

/// Calls visit(operand, its type, begin, elements) for each tile of a piece of a sum.
template <class Visit>
void for_each_tile(const Program& program, const Sum& sum, const Sum::Piece& piece,
                   const devices::Device& device, int64_t rows, const Visit& visit) {
  const ValueIds& inputs = program.instructions()[sum.instruction].node.inputs;
  const int64_t most = tile_elements(device);
  int64_t start = 0;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const op::TensorType& type = program.graph().at(inputs[k]).type;
    const int64_t size = type.shape.resolved(rows).total_extent();
    const bool is_summed = std::ranges::find(sum.operands, k) != sum.operands.end();
    const int64_t end = is_summed ? std::clamp<int64_t>(piece.end - start, 0, size) : 0;
    for (int64_t b = std::clamp<int64_t>(piece.begin - start, 0, size); b < end; b += most) {
      visit(k, type, b, std::min(most, end - b));
    }
    start += size;
  }
}

/// What a tile takes in the staging area.
size_t tile_bytes(const Program& program, const Sum& sum, const Sum::Piece& piece,
                  const devices::Device& device, int64_t rows) {
  size_t most = 0;
  for_each_tile(program, sum, piece, device, rows,
                [&](size_t, const op::TensorType& type, int64_t, int64_t count) {
                  most = std::max(most, static_cast<size_t>(count) * size_of(type.dtype));
                });
  return core::aligned(most);
}

std::vector<int> sources_of(const Sum::Piece& piece, int replicas) {
  if (!piece.sources.empty()) return piece.sources;
  std::vector<int> all(static_cast<size_t>(replicas));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

size_t PartialSum::staging_bytes_of(const Program& program, const Sum& sum, const Sum::Piece& piece,
                                    const Participant& participant, int replicas, int64_t rows) {
  const int depth = collective::tree_depth(static_cast<int>(sources_of(piece, replicas).size()));
  return static_cast<size_t>(depth) * tile_bytes(program, sum, piece, *participant.device, rows);
}

PartialSum::PartialSum(const Program& program, const Sum& sum, const Sum::Piece& piece,
                       const Participant& participant, int replicas, int64_t rows)
    : device_(participant.device),
      inputs_(program.instructions()[sum.instruction].node.inputs),
      outputs_(program.instructions()[sum.instruction].node.outputs),
      targets_(piece.targets),
      sources_(sources_of(piece, replicas)),
      shift_(piece.shift),
      end_(piece.end),
      zeros_(piece.zeros),
      tile_bytes_(tile_bytes(program, sum, piece, *device_, rows)),
      staging_bytes_(staging_bytes_of(program, sum, piece, participant, replicas, rows)) {
  const core::ComputeScope computing;
  for (ValueId input : inputs_) {
    element_bytes_.push_back(size_of(program.graph().at(input).type.dtype));
  }
  std::map<std::pair<DType, int64_t>, op::ExecutablePtr> known;
  for_each_tile(program, sum, piece, *device_, rows,
                [&](size_t operand, const op::TensorType& type, int64_t begin, int64_t count) {
                  auto& executable = known[{type.dtype, count}];
                  if (!executable) executable = prepare_add(type.dtype, count, *device_);
                  tiles_.push_back({operand, begin, count, executable});
                });
}

void PartialSum::run(const std::vector<BoundReplica>& replicas, void* staging,
                     devices::Queue& queue) const {
  const core::ComputeScope computing;
  for (const Tile& tile : tiles_) sum_tile(tile, replicas, static_cast<char*>(staging), queue);
  if (zeros_ == 0) return;
  for (int rank : targets_) {
    char* const out =
        static_cast<char*>(replicas[static_cast<size_t>(rank)].address_of(outputs_[0]));
    const auto element = static_cast<int64_t>(element_bytes_[0]);
    queue.fill(out + (end_ + shift_) * element, 0, static_cast<size_t>(zeros_ * element));
  }
}

void PartialSum::add(const Tile& tile, void* a, void* b, void* out, devices::Queue& queue) const {
  constexpr int kOperands[] = {0, 1, 2};
  void* const addresses[] = {a, b, out};
  const op::StepScalars step;
  op::Launch launch;
  launch.addresses = addresses;
  launch.operands = kOperands;
  launch.inputs = 2;
  launch.outputs = 1;
  if (queue.immediate()) {
    launch.step = &step;
  } else {
    launch.queue = &queue;
  }
  tile.add->run(launch);
}

/// The sum is made aside: outputs may lie where inputs lay.
void PartialSum::sum_tile(const Tile& tile, const std::vector<BoundReplica>& replicas,
                          char* staging, devices::Queue& queue) const {
  const size_t bytes = static_cast<size_t>(tile.count) * element_bytes_[tile.operand];
  const size_t offset = static_cast<size_t>(tile.begin) * element_bytes_[tile.operand];
  const auto aside = [&](int depth) {
    return at(staging, static_cast<size_t>(depth) * tile_bytes_);
  };
  const auto operand_of = [&](int source, int depth) {
    const int rank = sources_[static_cast<size_t>(source)];
    const BoundReplica& replica = replicas[static_cast<size_t>(rank)];
    char* const own = at(replica.address_of(inputs_[tile.operand]), offset);
    if (&replica.device->space() == &device_->space()) return own;
    copy(queue, *replica.device, own, *device_, aside(depth), bytes);
    return aside(depth);
  };
  const auto add_two = [&](char* a, char* b, int depth) {
    add(tile, a, b, aside(depth), queue);
    return aside(depth);
  };
  char* const sum = collective::tree_sum(0, static_cast<int>(sources_.size()), operand_of, add_two);
  for (int rank : targets_) {
    const BoundReplica& replica = replicas[static_cast<size_t>(rank)];
    const auto shift = shift_ * static_cast<int64_t>(element_bytes_[tile.operand]);
    copy(queue, *device_, sum, *replica.device,
         at(replica.address_of(outputs_[tile.operand]), offset) + shift, bytes);
  }
}

LibrarySum::LibrarySum(const Program& program, const Sum& sum, int replicas) {
  const Node& node = program.instructions()[sum.instruction].node;
  for (size_t k : sum.operands) {
    const op::TensorType& type = program.graph().at(node.inputs[k]).type;
    const auto count = static_cast<size_t>(type.shape.total_extent());
    if (count == 0) continue;
    inputs_.push_back(node.inputs[k]);
    outputs_.push_back(node.outputs[k]);
    operands_.push_back({.dtype = type.dtype, .count = count});
  }
  const auto ranks = static_cast<size_t>(replicas);
  addresses_.resize(2 * operands_.size() * ranks);
  for (size_t k = 0; k < operands_.size(); ++k) {
    operands_[k].from = {&addresses_[2 * k * ranks], ranks};
    operands_[k].to = {&addresses_[(2 * k + 1) * ranks], ranks};
  }
}

void LibrarySum::run(collective::DeviceGroup& group, const std::vector<BoundReplica>& replicas,
                     std::span<const devices::Event> after, std::span<devices::Event> done) {
  auto* address = addresses_.data();
  for (size_t k = 0; k < operands_.size(); ++k) {
    for (const ValueId value : {inputs_[k], outputs_[k]}) {
      for (size_t rank = 0; rank < operands_[k].from.size(); ++rank) {
        *address++ = replicas[rank].address_of(value);
      }
    }
  }
  group.all_reduce(operands_, after, done);
}

const devices::DevicePtr& source_of(const Move& move, const Graph& graph,
                                    const std::vector<BoundReplica>& replicas) {
  if (move.from >= 0) return replicas[static_cast<size_t>(move.from)].device;
  return graph.at(move.from_value).range.block->components()[0]->device();
}

namespace {

/// Where the values of a move lie, and where they go.
struct MoveEnds {
  MoveEnds(const Move& move, int rank, const Graph& graph,
           const std::vector<BoundReplica>& replicas)
      : source(*source_of(move, graph, replicas)),
        target(*replicas[static_cast<size_t>(rank)].device) {
    const Value& value = graph.at(move.from_value);
    const auto element = static_cast<int64_t>(size_of(value.type.dtype));
    void* const base = move.from >= 0
                           ? replicas[static_cast<size_t>(move.from)].address_of(move.from_value)
                           : value.range.data(source);
    void* const place = replicas[static_cast<size_t>(rank)].address_of(move.to_value);
    from = static_cast<char*>(base) + move.begin * element;
    to = static_cast<char*>(place) + (move.begin + move.shift) * element;
    bytes = static_cast<size_t>((move.end - move.begin) * element);
  }

  bool are_same() const { return to == from && &source.space() == &target.space(); }

  devices::Device& source;
  devices::Device& target;
  char* from;
  char* to;
  size_t bytes;
};

}  // namespace

void make_move(const Move& move, int rank, const Graph& graph,
               const std::vector<BoundReplica>& replicas, const std::shared_ptr<const void>& keep,
               const devices::Event& value_ready) {
  const MoveEnds ends(move, rank, graph, replicas);
  if (ends.are_same()) return;
  devices::transfer(ends.target, ends.to, ends.source, ends.from, ends.bytes, keep, value_ready);
}

void issue_move(const Move& move, int rank, const Graph& graph,
                const std::vector<BoundReplica>& replicas, devices::Queue& queue) {
  const MoveEnds ends(move, rank, graph, replicas);
  copy(queue, ends.source, ends.from, ends.target, ends.to, ends.bytes);
}

}  // namespace tandem::graph
