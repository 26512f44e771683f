#include "distribute/server/range_server.h"

#include <algorithm>
#include <cstring>

#include "collective/element_sum.h"
#include "distribute/context.h"
#include "function/function_body.h"

namespace tandem::distribute {
namespace {

void* address_of(const StoreRange& range) {
  return range.data(*range.block->components()[0]->device());
}

/// Memory of the caller as an argument of a program, which has read it when the run is over.
Tensor wrapped(const void* data, DType dtype, int64_t count) {
  return Tensor::wrap(data, dtype, {count}, nullptr);
}

}  // namespace

RangeServer::RangeServer(const Strategy& strategy, graph::ReplicasPtr replicas,
                         const ServerStep& step, const ParameterLayout& layout, int index,
                         const LedgerOptions& options)
    : strategy_(strategy), replicas_(std::move(replicas)), options_(options), ledger_(options) {
  size_t first_variable = 0;
  for (const PushedGradients& call : step.pushed()) {
    add_call(call, first_variable, index == 0, layout, index);
    first_variable += call.variables.size();
  }
  if (index != 0) return;
  assigned_ = step.assigned();
  for (const AssignedVariable& one : assigned_) pieces_.push_back({one.range, first_variable++, 0});
}

void RangeServer::add_call(const PushedGradients& call, size_t first_variable, bool counts,
                           const ParameterLayout& layout, int index) {
  const size_t first = pieces_.size();
  ServerUpdate::Operands operands{.counts = counts};
  for (const ServerPiece& piece : layout.pieces(index)) {
    if (piece.variable < first_variable) continue;
    const size_t own = piece.variable - first_variable;
    if (own >= call.variables.size()) continue;
    const Variable& variable = call.variables[own];
    const Variable elements = elements_of(variable, piece.begin, piece.count());
    pieces_.push_back({elements.body()->range, piece.variable, piece.begin});
    operands.variables.push_back(variable);
    operands.begins.push_back(piece.begin);
  }
  const size_t count = pieces_.size() - first;
  const auto update = [update = call.update, operands, count](const Tensors& arguments) {
    ServerUpdate::Operands now = operands;
    now.gradients.assign(arguments.begin(), arguments.begin() + static_cast<ptrdiff_t>(count));
    now.step = arguments[count];
    now.scale = arguments[count + 1];
    now.condition = arguments[count + 2];
    update->apply(now);
    return Tensors();
  };
  calls_.push_back(
      {first, count,
       std::make_unique<FlatFunction>(update, FunctionOptions{.name = "server_update"}),
       call.update->steps(), counts});
}

PushAnswer RangeServer::push(const PushStamp& stamp, const Contribution& contribution) {
  using enum PushAnswer::Outcome;
  const std::lock_guard lock(mutex_);
  const PushAnswer answer = ledger_.admit(stamp);
  if (answer.outcome == applied) apply(contribution, answer.scale);
  if (answer.outcome == held) {
    Held& kept = held_[stamp.ticket];
    kept.conditions = contribution.conditions;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const auto* bytes = static_cast<const std::byte*>(contribution.pieces[i]);
      kept.pieces.emplace_back(bytes, bytes + pieces_[i].bytes());
    }
  }
  return answer;
}

int64_t RangeServer::pull(int64_t step, std::span<void* const> to) {
  const std::lock_guard lock(mutex_);
  commit_locked(step);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    std::memcpy(to[i], address_of(pieces_[i].range), pieces_[i].bytes());
  }
  return ledger_.version();
}

void RangeServer::commit(int64_t step) {
  const std::lock_guard lock(mutex_);
  commit_locked(step);
}

StalenessStatistics RangeServer::statistics() const {
  const std::lock_guard lock(mutex_);
  return ledger_.statistics();
}

void RangeServer::commit_locked(int64_t step) {
  while (const std::optional<int64_t> whole = ledger_.commit(step)) apply_step(*whole);
}

/// Sums what all shares of the step have given, in the order of collective/tree.h.
void RangeServer::apply_step(int64_t step) {
  const auto first = held_.find(step * options_.shares);
  const auto end = held_.lower_bound((step + 1) * options_.shares);
  const size_t first_assigned = pieces_.size() - assigned_.size();
  Contribution sum;
  std::vector<std::vector<std::byte>> sums(pieces_.size());
  sum.conditions.assign(calls_.size(), true);
  for (auto share = first; share != end; ++share) {
    for (size_t c = 0; c < calls_.size(); ++c) {
      sum.conditions[c] = sum.conditions[c] && share->second.conditions[c];
    }
  }
  for (size_t i = 0; i < pieces_.size(); ++i) {
    std::vector<const void*> values;
    for (auto share = first; share != end; ++share)
      values.push_back(share->second.pieces[i].data());
    const bool is_summed = i < first_assigned || assigned_[i - first_assigned].is_summed;
    if (!is_summed || values.size() == 1) {
      sum.pieces.push_back(values[0]);
      continue;
    }
    sums[i].resize(pieces_[i].bytes());
    const StoreRange& range = pieces_[i].range;
    collective::sum_elements(range.block->dtype(), values, sums[i].data(), range.count);
    sum.pieces.push_back(sums[i].data());
  }
  apply(sum, 1);
  held_.erase(first, end);
}

void RangeServer::apply(const Contribution& contribution, double scale) {
  for (size_t c = 0; c < calls_.size(); ++c) {
    update(calls_[c], contribution, scale, contribution.conditions[c]);
  }
  const size_t first_assigned = pieces_.size() - assigned_.size();
  for (size_t i = 0; i < assigned_.size(); ++i) {
    assign(assigned_[i], contribution.pieces[first_assigned + i]);
  }
}

void RangeServer::update(Call& call, const Contribution& contribution, double scale,
                         bool condition) {
  if (call.count == 0 && !call.counts) return;
  Tensors tensors;
  for (size_t i = call.first; i < call.first + call.count; ++i) {
    const StoreRange& range = pieces_[i].range;
    tensors.push_back(wrapped(contribution.pieces[i], range.block->dtype(), range.count));
  }
  tensors.emplace_back(call.step);
  tensors.emplace_back(scale);
  tensors.emplace_back(condition);
  const graph::ArgumentList list = graph::argument_list(tensors);
  graph::ConcreteFunctionPtr concrete;
  {
    const RunScope running(strategy_);
    // No argument has the rows of a batch.
    concrete = call.update->body()->find_or_compile(
        {.tensors = list, .rows = graph::Arguments::kUnequal}, {.replicas = replicas_});
  }
  const graph::BatchShard shard{.rows = 1};
  call.update->body()->run(*concrete, {.tensors = list, .shards = {&shard, 1}});
  if (condition) ++call.step;
}

void RangeServer::assign(const AssignedVariable& variable, const void* value) const {
  const StoreRange& range = variable.range;
  range.block->settle_loans();
  void* const here = address_of(range);
  if (variable.change == AssignedVariable::Change::set) {
    std::memcpy(here, value, variable.bytes());
  } else {
    const void* const both[] = {here, value};
    collective::sum_elements(range.block->dtype(), both, here, range.count);
  }
}

}  // namespace tandem::distribute
