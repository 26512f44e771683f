#include "execution/cross_device_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "execution/bucket_plan.h"
#include "execution/part_meetings.h"
#include "execution/reduction_choice.h"
#include "graph/group_exchange.h"
#include "graph/uses.h"
#include "op/update.h"
#include "tandem/error.h"

namespace tandem::graph {
namespace {

using distribute::CrossDeviceReduction;

class CrossDevicePlanner {
 public:
  CrossDevicePlanner(const Program& program, const Replicas& replicas)
      : program_(program),
        graph_(program.graph()),
        uses_(graph_),
        replicas_(replicas),
        library_(library_sums(replicas)) {
    plan_.replicas = replicas.local();
    for (const devices::DevicePtr& device : replicas.devices) add_rank(device);
    if (replicas.central) {
      const auto central =
          std::ranges::find_if(plan_.participants, [&](const Participant& participant) {
            return &participant.device->space() == &replicas.central->space();
          });
      root_ = static_cast<int>(central - plan_.participants.begin());
      if (central == plan_.participants.end()) add_rank(replicas.central);
    }
    plan_.shares.assign(plan_.participants.size(), std::vector<Share>(instructions().size()));
    if (plan_.is_central_apart()) plan_.shares.back().assign(instructions().size(), {0, 0});
  }

  CrossDevicePlan run() {
    bring_variables();
    for (size_t i = 0; i < instructions().size(); ++i) {
      const Node& node = instructions()[i].node;
      if (touches_pending(i)) publish();
      if (node.op().is_collective) {
        cut(i);
        begin_ = i + 1;
        meet(i);
      } else if (node.op().writes_ranges && !writes_own_value(node)) {
        write(i);
      } else if (node.op().writes_ranges) {
        for (ValueId range : node.ranges) {
          if (graph_.at(range).range.is_own_part()) parts_.insert(range);
        }
        if (node.op().is_update) share_views(node);
      }
      end_ = i + 1;
    }
    std::erase_if(pending_, [](const Pending& p) { return !p.outlives_run; });
    publish();
    cut(instructions().size());
    add_repairs();
    return std::move(plan_);
  }

 private:
  /// A move of a variable that must be made before the variable is used again.
  struct Pending {
    Move move;
    bool outlives_run;  ///< Copies in the execution's own memory are made anew by each run.
  };

  const std::vector<Instruction>& instructions() const { return program_.instructions(); }

  /// True for a write to a variable of which each replica has its own value.
  bool writes_own_value(const Node& node) const {
    return !graph_.at(node.ranges[0]).range.is_same_for_all();
  }
  int first_rank(int participant) const {
    return plan_.participants[static_cast<size_t>(participant)].ranks[0];
  }
  int central_rank() const { return plan_.replicas; }

  void add_rank(const devices::DevicePtr& device) {
    auto participant = std::ranges::find_if(plan_.participants, [&](const Participant& s) {
      return &s.device->space() == &device->space();
    });
    if (participant == plan_.participants.end())
      participant = plan_.participants.insert(participant, Participant{device, {}});
    participant->ranks.push_back(plan_.ranks());
    plan_.participant_of.push_back(static_cast<int>(participant - plan_.participants.begin()));
  }

  /// Ends the stretch before instruction `i`.
  void cut(size_t i) {
    if (begin_ < i) plan_.supersteps.push_back({.begin = begin_, .end = i});
    begin_ = i;
  }

  void add_moves(std::vector<Move> moves) {
    std::erase_if(moves, [](const Move& m) { return m.to.empty() || m.begin >= m.end; });
    if (!moves.empty()) plan_.supersteps.push_back({.moves = std::move(moves)});
  }

  void add_sum(Sum sum) { plan_.supersteps.push_back({.sums = {std::move(sum)}}); }

  int64_t count(ValueId value) const { return graph_.at(value).type.shape.total_extent(); }

  /// Participants with a component of every variable that `node` writes.
  std::vector<int> owners(const Node& node) const {
    std::vector<int> participants;
    for (size_t s = 0; s < plan_.participants.size(); ++s) {
      const auto is_there = [&](ValueId range) {
        return graph_.at(range).range.block->is_in(plan_.participants[s].device->space());
      };
      if (!node.op().writes_ranges || std::ranges::all_of(node.ranges, is_there)) {
        participants.push_back(static_cast<int>(s));
      }
    }
    return participants;
  }

  /// The move of a variable to the participants that have no component of it, from one that has.
  Move copy_of(ValueId range) const {
    Move move{.from = -1, .from_value = range, .to_value = range, .end = count(range)};
    for (size_t s = 0; s < plan_.participants.size(); ++s) {
      const int rank = first_rank(static_cast<int>(s));
      if (!graph_.at(range).range.block->is_in(plan_.participants[s].device->space())) {
        move.to.push_back(rank);
      } else if (move.from < 0) {
        move.from = rank;
      }
    }
    return move;
  }

  void bring_variables() {
    std::vector<Move> moves;
    for (ValueId value : graph_.values.ids()) {
      if (graph_.at(value).source != Value::Source::range || !uses_.is_used(value)) continue;
      moves.push_back(copy_of(value));
    }
    add_moves(std::move(moves));
  }

  bool touches_pending(size_t i) const {
    const Node& node = instructions()[i].node;
    return std::ranges::any_of(pending_, [&](const Pending& pending) {
      return std::ranges::any_of(overlapping(pending.move.to_value), [&](ValueId range) {
        return uses_.is_used_by(range, i) ||
               std::ranges::find(node.ranges, range) != node.ranges.end();
      });
    });
  }

  /// All that a variable is seen as.
  ValueIds overlapping(ValueId range) const {
    ValueIds all;
    for (ValueId value : graph_.values.ids()) {
      const bool is_range = graph_.at(value).source == Value::Source::range;
      if (is_range && overlap(graph_.at(value).range, graph_.at(range).range)) all.push_back(value);
    }
    return all;
  }

  void publish() {
    if (pending_.empty()) return;
    cut(end_);
    std::vector<Move> moves;
    for (Pending& pending : pending_) moves.push_back(std::move(pending.move));
    pending_.clear();
    add_moves(std::move(moves));
  }

  /// Replicas meet in instruction `i`.
  void meet(size_t i) {
    const Node& node = instructions()[i].node;
    if (is_group_exchange(node)) {
      plan_.supersteps.push_back({.exchange = i});
    } else if (node.op().name == "reduce_local") {
      sum_for_first(i);
    } else if (node.op().name == "broadcast" || node.op().name == "spread_local") {
      broadcast(node);
    } else if (node.op().name == "join_parts") {
      add_moves(moves_of_join(plan_, graph_, node));
    } else if (node.op().name == "join_start") {
      start_join(node);
    } else if (node.op().name == "join_finish") {
      finish_join(node);
    } else if (node.op().name == "sum_to_part") {
      add_sum(sum_to_parts(plan_, program_, i));
    } else if (node.op().name == "sum_over_model") {
      add_sum(sum_over_model(program_, i));
    } else if (node.op().name == "sum_over_holders") {
      add_sum(sum_over_holders(plan_, program_, i));
    } else {
      sum(i);
    }
  }

  /// Joins that start one after another are one superstep.
  void start_join(const Node& node) {
    std::vector<Superstep>& all = plan_.supersteps;
    const bool goes_on = !all.empty() && all.back().early && all.back().sums.empty();
    if (!goes_on) all.push_back({.early = true});
    for (Move& move : moves_of_join(plan_, graph_, node)) {
      if (move.begin < move.end) all.back().moves.push_back(std::move(move));
    }
  }

  /// The whole is where the join has put it, unless it is a result of the program.
  void finish_join(const Node& node) {
    if (plan_.supersteps.empty() || !plan_.supersteps.back().awaits_moves) {
      plan_.supersteps.push_back({.awaits_moves = true});
    }
    const ValueId joined = graph_.storage_of(node.inputs[0]);
    const ValueId whole = graph_.storage_of(node.outputs[0]);
    const auto& buffer_of = program_.memory().buffer_of;
    if (buffer_of[joined] >= 0 && buffer_of[joined] == buffer_of[whole]) return;
    std::vector<Move> moves;
    for (int rank = 0; rank < plan_.replicas; ++rank) {
      moves.push_back({.from = rank,
                       .from_value = joined,
                       .to = {rank},
                       .to_value = whole,
                       .end = count(whole)});
    }
    add_moves(std::move(moves));
  }

  /// Replicas have updated their parts of what all see as a whole: these go to all others. Where
  /// there are other processes an exchange behind the update does it.
  void share_views(const Node& update) {
    for (ValueId range : update.ranges) {
      const int64_t stride = graph_.at(range).range.stride;
      if (stride == 0) continue;
      views_.insert(range);
      if (program_.runners().group) continue;
      for (int from = 0; from < plan_.replicas; ++from) {
        for (int to = 0; to < plan_.replicas; ++to) {
          if (plan_.participant_of[static_cast<size_t>(from)] ==
              plan_.participant_of[static_cast<size_t>(to)]) {
            continue;
          }
          pending_.push_back({{.from = from,
                               .from_value = range,
                               .to = {to},
                               .to_value = range,
                               .end = stride,
                               .shift = (from - to) * stride},
                              true});
        }
      }
    }
  }

  /// The first replica gets the sum, for an exchange with other processes.
  void sum_for_first(size_t i) {
    const Node& node = instructions()[i].node;
    Sum sum{.instruction = i};
    int64_t elements = 0;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      elements += count(node.inputs[k]);
      sum.operands.push_back(k);
    }
    sum.pieces.push_back({plan_.participant_of[0], 0, elements, {0}});
    add_sum(std::move(sum));
  }

  void broadcast(const Node& node) {
    std::vector<Move> moves;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      Move move{.from_value = node.inputs[k], .to_value = node.outputs[k]};
      move.end = count(node.inputs[k]);
      for (int rank = 0; rank < plan_.replicas; ++rank) move.to.push_back(rank);
      moves.push_back(std::move(move));
    }
    add_moves(std::move(moves));
  }

  /// The updates that take their gradients from a reduce_scatter.
  std::vector<size_t> updates_of(const Node& reduce) const {
    std::vector<size_t> updates;
    for (const Use& use : uses_.of(reduce.outputs[0])) updates.push_back(use.call);
    return updates;
  }

  void sum(size_t i) {
    const Node& node = instructions()[i].node;
    int64_t elements = 0;
    size_t bytes = 0;
    for (ValueId input : node.inputs) {
      const int64_t own = count(input);
      elements += own;
      bytes += static_cast<size_t>(own) * size_of(graph_.at(input).type.dtype);
    }
    const bool scatters = node.op().name == "reduce_scatter";
    const std::vector<size_t> updates = scatters ? updates_of(node) : std::vector<size_t>{};
    std::vector<int> holders;
    if (!updates.empty()) holders = owners(instructions()[updates[0]].node);
    const bool at_holder = holders.size() == 1;  // The only range is all of it.
    const int alone = at_holder ? holders[0] : root_;
    const ReductionChoice choice =
        choose_reduction(replicas_.reduction,
                         {.bytes = bytes,
                          .is_update = scatters,
                          .device = plan_.participants[static_cast<size_t>(alone)].device->name(),
                          .is_central = replicas_.central != nullptr,
                          .library = library_});
    if (plan_.participants.size() > 1) {
      plan_.reduction += fmt::format(
          "{}all_reduce of {} between {} memory spaces: {}", plan_.reduction.empty() ? "" : "\n",
          scaled(static_cast<double>(bytes), "B"), plan_.participants.size(), choice.text);
    }

    Sum sum{.instruction = i};
    for (size_t k = 0; k < node.inputs.size(); ++k) sum.operands.push_back(k);
    if (choice.is_by_library()) {
      sum.is_by_library = true;
      take_buckets(sum, program_, uses_, plan_);
    } else if (choice.how == CrossDeviceReduction::one_device && !at_holder) {
      sum.pieces.push_back({root_, 0, elements, replica_ranks()});
    } else {
      if (!scatters) {
        for (size_t s = 0; s < plan_.participants.size(); ++s)
          holders.push_back(static_cast<int>(s));
      }
      const int64_t chunks = (elements + op::Split::kChunk - 1) / op::Split::kChunk;
      const int parts = static_cast<int>(holders.size());
      for (int k = 0; k < parts; ++k) {
        const auto [first, last] = op::part_of(chunks, k, parts);
        const int participant = holders[static_cast<size_t>(k)];
        sum.pieces.push_back({participant, first * op::Split::kChunk,
                              std::min(last * op::Split::kChunk, elements),
                              scatters ? plan_.participants[static_cast<size_t>(participant)].ranks
                                       : replica_ranks()});
      }
      if (scatters) shard(updates, sum);
      take_buckets(sum, program_, uses_, plan_);
    }
    add_sum(std::move(sum));
  }

  std::vector<int> replica_ranks() const {
    std::vector<int> ranks(static_cast<size_t>(plan_.replicas));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  /// Each holder of a piece updates that piece; then all get it.
  void shard(const std::vector<size_t>& updates, const Sum& sum) {
    const int parts = static_cast<int>(sum.pieces.size());
    for (size_t update : updates) {
      sharded_[update] = sum.pieces;
      for (int k = 0; k < parts; ++k) {
        const auto participant =
            static_cast<size_t>(sum.pieces[static_cast<size_t>(k)].participant);
        plan_.shares[participant][update] = {k, parts};
      }
    }
    const Node& reduce = instructions()[sum.instruction].node;
    for (const Sum::Piece& piece : sum.pieces) {
      if (first_rank(piece.participant) != central_rank()) continue;
      central_has_.insert(reduce.outputs.begin(), reduce.outputs.end());
    }
  }

  void write(size_t i) {
    const Node& node = instructions()[i].node;
    const std::vector<int> holders = owners(node);
    for (size_t s = 0; s < plan_.participants.size(); ++s) {
      Share& share = plan_.shares[s][i];
      const bool holds = std::ranges::find(holders, static_cast<int>(s)) != holders.end();
      if (!holds) share = {0, 0};
      if (holds && share.of == 0) share = {0, 1};
    }
    if (plan_.is_central_apart()) hand_over(i);
    if (node.op().writes_ranges) {
      for (ValueId range : node.ranges) {
        written_.insert(range);
        if (uses_.is_used(range)) pending_.push_back({copy_of(range), false});
      }
    }
    if (const auto sharded = sharded_.find(i); sharded != sharded_.end()) {
      for (const Sum::Piece& piece : sharded->second) gather(node, piece, holders);
    }
    std::erase_if(pending_, [](const Pending& pending) { return pending.move.to.empty(); });
  }

  /// What a central device without replicas needs of an instruction's inputs is what a replica has.
  void hand_over(size_t i) {
    std::vector<Move> moves;
    for (ValueId input : instructions()[i].node.inputs) {
      const ValueId storage = graph_.storage_of(input);
      const Value& value = graph_.at(storage);
      if (value.source == Value::Source::constant || value.source == Value::Source::range) continue;
      if (!central_has_.insert(storage).second) continue;
      moves.push_back({.from_value = storage,
                       .to = {central_rank()},
                       .to_value = storage,
                       .end = count(storage)});
      const auto argument = std::ranges::find(graph_.arguments, storage);
      if (argument != graph_.arguments.end()) {
        plan_.handed_arguments.push_back(static_cast<int>(argument - graph_.arguments.begin()));
      }
    }
    if (moves.empty()) return;
    cut(i);
    add_moves(std::move(moves));
  }

  /// Sends what one participant has updated of each variable and slot to the others.
  void gather(const Node& update, const Sum::Piece& piece, const std::vector<int>& holders) {
    const op::UpdateLayout layout(update.signature);
    for (size_t r = 0; r < update.ranges.size(); ++r) {
      const ValueId range = update.ranges[r];
      const int64_t start = layout.start(layout.owner(r));
      Move move{.from = first_rank(piece.participant),
                .from_value = range,
                .to_value = range,
                .begin = std::clamp<int64_t>(piece.begin - start, 0, count(range)),
                .end = std::clamp<int64_t>(piece.end - start, 0, count(range))};
      if (move.begin >= move.end) continue;
      for (int participant : holders) {
        if (participant != piece.participant) move.to.push_back(first_rank(participant));
      }
      pending_.push_back({std::move(move), true});
    }
  }

  void add_repairs() {
    for (ValueId range : written_) {
      Move move{.from = -1, .from_value = range, .to_value = range, .end = count(range)};
      for (size_t s = 0; s < plan_.participants.size(); ++s) {
        if (!graph_.at(range).range.block->is_in(plan_.participants[s].device->space())) continue;
        const int rank = first_rank(static_cast<int>(s));
        move.from < 0 ? void(move.from = rank) : move.to.push_back(rank);
      }
      if (!move.to.empty()) plan_.repairs.push_back(std::move(move));
    }
    // Those that have the same part of a variable have made the same of it.
    for (ValueId range : parts_) {
      const int parts = graph_.at(range).range.block->parts();
      for (int to = parts; to < plan_.replicas; ++to) {
        plan_.repairs.push_back({.from = to % parts,
                                 .from_value = range,
                                 .to = {to},
                                 .to_value = range,
                                 .end = count(range)});
      }
    }
    for (ValueId range : views_) {
      const int64_t stride = graph_.at(range).range.stride;
      for (int to = 1; to < plan_.replicas; ++to) {
        plan_.repairs.push_back({.from_value = range,
                                 .to = {to},
                                 .to_value = range,
                                 .end = stride * plan_.replicas,
                                 .shift = -to * stride});
      }
    }
  }

  const Program& program_;
  const Graph& graph_;
  const Uses uses_;
  const Replicas& replicas_;
  const collective::LibrarySums library_;
  CrossDevicePlan plan_;
  int root_ = 0;      // The participant that sums where one does.
  size_t begin_ = 0;  // Where the stretch at hand begins,
  size_t end_ = 0;    // and how far it goes already.
  std::vector<Pending> pending_;
  std::map<size_t, std::vector<Sum::Piece>> sharded_;  // By instruction.
  std::set<ValueId> central_has_;  // Values that a central device without replicas was given.
  std::set<ValueId> written_;      // Ranges,
  std::set<ValueId> views_;        // those of which replicas write parts,
  std::set<ValueId> parts_;        // and those of which replicas have parts.
};

}  // namespace

bool is_cross_device(const Replicas& replicas) {
  const devices::Device& first = *replicas.devices[0];
  const auto elsewhere = [&](const devices::DevicePtr& device) {
    return &device->space() != &first.space();
  };
  if (std::ranges::any_of(replicas.devices, elsewhere)) return true;
  if (replicas.central && elsewhere(replicas.central)) return true;
  return replicas.count() > 1 && !replicas.devices[0]->works_on_threads();
}

std::vector<Sum::Piece> equal_pieces(const CrossDevicePlan& plan, int64_t elements,
                                     const std::vector<int>& ranks) {
  std::vector<int> participants;
  for (int rank : ranks) {
    const int own = plan.participant_of[static_cast<size_t>(rank)];
    if (std::ranges::find(participants, own) == participants.end()) participants.push_back(own);
  }
  const int64_t chunks = (elements + op::Split::kChunk - 1) / op::Split::kChunk;
  const int parts = static_cast<int>(participants.size());
  std::vector<Sum::Piece> pieces;
  for (int k = 0; k < parts; ++k) {
    const auto [first, last] = op::part_of(chunks, k, parts);
    pieces.push_back({.participant = participants[static_cast<size_t>(k)],
                      .begin = first * op::Split::kChunk,
                      .end = std::min(last * op::Split::kChunk, elements),
                      .targets = ranks,
                      .sources = ranks});
  }
  return pieces;
}

CrossDevicePlan plan_cross_device(const Program& program, const Replicas& replicas) {
  return CrossDevicePlanner(program, replicas).run();
}

}  // namespace tandem::graph
