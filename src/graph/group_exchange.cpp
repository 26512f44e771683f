#include "graph/group_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ranges>

#include "core/inline_vector.h"
#include "graph/part_exchange.h"
#include "op/update.h"

namespace tandem::graph {
namespace {

/// The pieces of the first replica's operands, each where its result is wanted.
core::InlineVector<op::Piece, 64> pieces_of(const op::TensorTypes& types,
                                            const op::Launch& launch) {
  core::InlineVector<op::Piece, 64> pieces;
  for (size_t i = 0; i < types.size(); ++i) {
    const auto operand = static_cast<int>(i);
    void* data = launch.out<void>(operand);
    const void* from = launch.in<void>(operand);
    if (data != from) std::memcpy(data, from, types[i].bytes());
    pieces.push_back({data, types[i].shape.total_extent(), types[i].dtype});
  }
  return pieces;
}

/// The first thread of all replicas exchanges the operands of the first replica, and waits.
class GroupExchange final : public op::Executable {
 public:
  GroupExchange(const Runners& runners, const op::Signature& signature, std::string name,
                bool carries_agreement)
      : group_(runners.group),
        agreement_(runners.agreement),
        carries_agreement_(carries_agreement && agreement_ != nullptr),
        types_(signature.inputs),
        kind_(signature.op->name == "exchange_sum" ? op::ExchangeKind::sum
                                                   : op::ExchangeKind::broadcast),
        name_(std::move(name)) {}

  /// A sum over some of the processes.
  GroupExchange(std::shared_ptr<op::Group> group, const op::Signature& signature, std::string name)
      : group_(std::move(group)),
        carries_agreement_(false),
        types_(signature.inputs),
        kind_(op::ExchangeKind::sum),
        name_(std::move(name)) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    auto pieces = pieces_of(types_, launch);
    if (carries_agreement_) {
      agreement_->all = agreement_->own;
      pieces.push_back(
          {agreement_->all.data(), static_cast<int64_t>(agreement_->all.size()), DType::int64});
    }
    const auto arrived = std::chrono::steady_clock::now();
    group_->run({.kind = kind_, .pieces = pieces, .name = name_});
    if (agreement_ != nullptr) note_times(arrived, std::chrono::steady_clock::now());
  }

  const char* provider() const override { return "the processes"; }

 private:
  using Time = std::chrono::steady_clock::time_point;

  void note_times(Time arrived, Time left) const {
    agreement_->waited += left - arrived;
    if (!carries_agreement_) return;
    agreement_->arrived = arrived;
    agreement_->left = left;
  }

  const std::shared_ptr<op::Group> group_;
  const std::shared_ptr<Agreement> agreement_;
  const bool carries_agreement_;
  const op::TensorTypes types_;
  const op::ExchangeKind kind_;
  const std::string name_;
};

/// What each process made of its part of some variables goes to all.
class VariableGather final : public op::Executable {
 public:
  VariableGather(const Runners& runners, const op::Signature& signature)
      : group_(runners.group), types_(signature.ranges) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    core::InlineVector<op::Piece, 64> pieces;
    for (size_t i = 0; i < types_.size(); ++i) {
      pieces.push_back({launch.range<void>(static_cast<int>(i)), types_[i].shape.total_extent(),
                        types_[i].dtype});
    }
    group_->run(
        {.kind = op::ExchangeKind::gather_parts, .pieces = pieces, .name = "updated variables"});
  }

  const char* provider() const override { return "the processes"; }

 private:
  const std::shared_ptr<op::Group> group_;
  const op::TensorTypes types_;
};

/// The sum of a bucket begins, and goes on while the program does.
class StartedExchange final : public op::Executable {
 public:
  StartedExchange(const Runners& runners, const op::Signature& signature, std::string name,
                  std::shared_ptr<BucketTickets> tickets)
      : group_(runners.group),
        types_(signature.inputs),
        name_(std::move(name)),
        bucket_(static_cast<size_t>(signature.attrs.get<int64_t>("bucket"))),
        tickets_(std::move(tickets)) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    auto& pieces = tickets_->buckets[bucket_].pieces;
    pieces.clear();
    for (const op::Piece& piece : pieces_of(types_, launch)) pieces.push_back(piece);
    tickets_->buckets[bucket_].ticket =
        group_->start({.kind = op::ExchangeKind::sum_parts, .pieces = pieces, .name = name_});
  }

  const char* provider() const override { return "the processes"; }

 private:
  const std::shared_ptr<op::Group> group_;
  const op::TensorTypes types_;
  const std::string name_;
  const size_t bucket_;
  const std::shared_ptr<BucketTickets> tickets_;
};

/// Waits for the sum of a bucket.
class FinishedExchange final : public op::Executable {
 public:
  FinishedExchange(const Runners& runners, const op::Signature& signature,
                   std::shared_ptr<BucketTickets> tickets)
      : group_(runners.group),
        types_(signature.inputs),
        bucket_(static_cast<size_t>(signature.attrs.get<int64_t>("bucket"))),
        tickets_(std::move(tickets)) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    group_->wait(tickets_->buckets[bucket_].ticket);
    pieces_of(types_, launch);  // Where a result has memory of its own it is copied there.
  }

  const char* provider() const override { return "the processes"; }

 private:
  const std::shared_ptr<op::Group> group_;
  const op::TensorTypes types_;
  const size_t bucket_;
  const std::shared_ptr<BucketTickets> tickets_;
};

/// What errors call an exchange: its first gradient's variable, or which of the program's it is.
std::string name_of(const Graph& graph, const Node& exchange) {
  for (const Node& node : graph.nodes) {
    if (!node.op().is_update) continue;
    const op::UpdateLayout layout(node.signature);
    const ValueId gradient = graph.storage_of(node.inputs[0]);
    const bool is_here = std::ranges::any_of(
        exchange.outputs, [&](ValueId output) { return graph.storage_of(output) == gradient; });
    if (is_here) {
      return fmt::format("gradients from {}",
                         graph.at(node.ranges[layout.variable(0)]).range.name());
    }
  }
  int before = 0;
  for (const Node& node : graph.nodes) {
    if (node.outputs == exchange.outputs) break;
    before += is_group_exchange(node) ? 1 : 0;
  }
  return fmt::format("exchange {} of a program", before + 1);
}

/// The processes along the axis of a mesh that a sum is over. What a stage's processes have in
/// parts they sum over all of them.
std::shared_ptr<op::Group> group_along_axis(const Runners& runners, const Node& sum) {
  if (sum.op().name != "exchange_over_model") return runners.along_data;
  const bool is_of_all = sum.signature.attrs.get<int64_t>("model") == runners.all;
  return is_of_all ? runners.group : runners.along_model;
}

bool is_last_sum(const Graph& graph, const Node& exchange) {
  for (const Node& node : std::views::reverse(graph.nodes)) {
    if (node.op().name == "exchange_sum") return node.outputs == exchange.outputs;
  }
  return false;
}

}  // namespace

bool is_group_exchange(const Node& node) {
  return node.op().is_collective && node.op().name.starts_with("exchange_");
}

std::set<ValueId> variables_in_parts(const Graph& graph) {
  std::set<ValueId> variables;
  for (const Node& node : graph.nodes) {
    if (node.op().name == "exchange_gather") {
      variables.insert(node.ranges.begin(), node.ranges.end());
    }
  }
  return variables;
}

bool is_update_in_parts(const Node& node, const std::set<ValueId>& variables) {
  return node.op().is_update && variables.contains(node.ranges[0]);
}

op::ExecutablePtr prepare_group_exchange(const Program& program, const Node& node,
                                         const op::Signature& signature) {
  const std::shared_ptr<BucketTickets>& tickets = program.bucket_tickets();
  if (node.op().name == "exchange_gather") {
    return std::make_shared<VariableGather>(program.runners(), node.signature);
  }
  if (is_part_exchange(node)) {
    return prepare_part_exchange(program, node, name_of(program.graph(), node));
  }
  if (node.op().name.starts_with("exchange_over_")) {
    return std::make_shared<GroupExchange>(group_along_axis(program.runners(), node), signature,
                                           name_of(program.graph(), node));
  }
  if (node.op().name == "exchange_start") {
    return std::make_shared<StartedExchange>(program.runners(), node.signature,
                                             name_of(program.graph(), node), tickets);
  }
  if (node.op().name == "exchange_finish") {
    return std::make_shared<FinishedExchange>(program.runners(), node.signature, tickets);
  }
  return std::make_shared<GroupExchange>(program.runners(), node.signature,
                                         name_of(program.graph(), node),
                                         is_last_sum(program.graph(), node));
}

}  // namespace tandem::graph
