#include "graph/group_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ranges>

#include "core/inline_vector.h"
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

/// The parts of a variable that the processes have begin to go to all, into memory with room for
/// them.
class StartedJoin final : public op::Executable {
 public:
  StartedJoin(const Runners& runners, const op::Signature& signature, std::string name,
              std::shared_ptr<BucketTickets> tickets)
      : group_(runners.group),
        part_(signature.inputs[0]),
        all_(signature.outputs[0]),
        name_(std::move(name)),
        number_(static_cast<size_t>(signature.attrs.get<int64_t>("number"))),
        tickets_(std::move(tickets)) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    char* const all = launch.out<char>(0);
    std::memcpy(all + part_.bytes() * static_cast<size_t>(group_->rank()), launch.in<void>(0),
                part_.bytes());
    if (tickets_->joins.size() <= number_) tickets_->joins.resize(number_ + 1);
    BucketTickets::Bucket& join = tickets_->joins[number_];
    join.pieces.assign(1, {all, all_.shape.total_extent(), all_.dtype});
    join.ticket = group_->start(
        {.kind = op::ExchangeKind::gather_parts, .pieces = join.pieces, .name = name_});
  }

  const char* provider() const override { return "the processes"; }

 private:
  const std::shared_ptr<op::Group> group_;
  const op::TensorType part_;
  const op::TensorType all_;
  const std::string name_;
  const size_t number_;
  const std::shared_ptr<BucketTickets> tickets_;
};

/// Waits for the parts, and leaves what goes past the end of the variable.
class FinishedJoin final : public op::Executable {
 public:
  FinishedJoin(const Runners& runners, const op::Signature& signature,
               std::shared_ptr<BucketTickets> tickets)
      : group_(runners.group),
        bytes_(signature.outputs[0].bytes()),
        number_(static_cast<size_t>(signature.attrs.get<int64_t>("number"))),
        tickets_(std::move(tickets)) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    group_->wait(tickets_->joins[number_].ticket);
    std::memcpy(launch.out<void>(0), launch.in<void>(0), bytes_);
  }

  const char* provider() const override { return "the processes"; }

 private:
  const std::shared_ptr<op::Group> group_;
  const size_t bytes_;
  const size_t number_;
  const std::shared_ptr<BucketTickets> tickets_;
};

/// Gives each process its part of the sum of what they have of a gradient, by way of memory with
/// room for all parts.
class SumToPart final : public op::Executable {
 public:
  SumToPart(const Runners& runners, const op::Signature& signature, std::string name,
            std::shared_ptr<BucketTickets> tickets)
      : group_(runners.group),
        whole_(signature.inputs[0]),
        part_(signature.outputs[0]),
        name_(std::move(name)),
        tickets_(std::move(tickets)) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    std::vector<char>& all = tickets_->parts;
    const size_t bytes = part_.bytes() * static_cast<size_t>(group_->size());
    if (all.size() < bytes) all.resize(bytes);
    std::memcpy(all.data(), launch.in<void>(0), whole_.bytes());
    std::memset(all.data() + whole_.bytes(), 0, bytes - whole_.bytes());
    const op::Piece piece{all.data(), part_.shape.total_extent() * group_->size(), part_.dtype};
    group_->run({.kind = op::ExchangeKind::sum_parts, .pieces = {&piece, 1}, .name = name_});
    std::memcpy(launch.out<void>(0),
                all.data() + part_.bytes() * static_cast<size_t>(group_->rank()), part_.bytes());
  }

  const char* provider() const override { return "the processes"; }

 private:
  const std::shared_ptr<op::Group> group_;
  const op::TensorType whole_;
  const op::TensorType part_;
  const std::string name_;
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

op::ExecutablePtr prepare_group_exchange(const Program& program, const Node& node) {
  const std::shared_ptr<BucketTickets>& tickets = program.bucket_tickets();
  if (node.op().name == "exchange_gather") {
    return std::make_shared<VariableGather>(program.runners(), node.signature);
  }
  if (node.op().name == "exchange_join_start") {
    return std::make_shared<StartedJoin>(program.runners(), node.signature,
                                         name_of(program.graph(), node), tickets);
  }
  if (node.op().name == "exchange_join_finish") {
    return std::make_shared<FinishedJoin>(program.runners(), node.signature, tickets);
  }
  if (node.op().name == "exchange_sum_to_part") {
    return std::make_shared<SumToPart>(program.runners(), node.signature,
                                       name_of(program.graph(), node), tickets);
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
