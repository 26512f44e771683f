#include "distribute/range/range_server.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "collective/element_sum.h"
#include "device/mapped_memory.h"
#include "distribute/context.h"
#include "distribute/range/element_norms.h"
#include "function/function_body.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tensor/unmade_values.h"

namespace tandem::distribute {
namespace {

/// Memory of the caller as an argument of a program, which has read it when the run is over.
Tensor wrapped(const void* data, DType dtype, int64_t count) {
  return Tensor::wrap(data, dtype, {count}, nullptr);
}

/// The squares of norms, as optimizers that clip by norms compute them.
Tensors sums_of_squares(const Tensors& gradients) {
  Tensors sums;
  for (const Tensor& gradient : gradients) sums.push_back(reduce_sum(square(gradient)));
  return sums;
}

}  // namespace

RangeServer::RangeServer(const Strategy& strategy, graph::ReplicasPtr replicas,
                         const ServerStep& step, const ParameterLayout& layout, int index,
                         const LedgerOptions& options, bool sparse_update)
    : strategy_(strategy),
      replicas_(std::move(replicas)),
      sparse_update_(sparse_update),
      meeting_(options.shares),
      ledger_(options),
      held_(options.shares),
      squares_of_(sums_of_squares, {.name = "server_norms"}) {
  size_t first_variable = 0;
  for (const PushedGradients& call : step.pushed()) {
    add_call(step, call, first_variable, index == 0, layout, index);
    first_variable += call.variables.size();
    for (const Variable& variable : call.variables) gradients_.push_back(type_of(variable));
  }
  if (index == 0) assigned_ = step.assigned();
  for (const AssignedVariable& one : assigned_) pieces_.push_back({one.range, first_variable++, 0});
  note_state();
}

/// The updates are compiled for it: their programs say what they read and write.
void RangeServer::note_state() {
  size_t most = 1;
  for (const RangePiece& piece : pieces_) most = std::max(most, piece.bytes());
  // Nobody reads them.
  const auto zeros = devices::MappedMemory::sparse(most);
  const Contribution nothing{.pieces = std::vector<const void*>(pieces_.size(), zeros->data()),
                             .conditions = {}};
  std::set<size_t> written;
  for (Call& call : calls_) {
    if (call.count == 0 && !call.counts) continue;
    std::vector<std::vector<std::byte>> padded;
    const Tensors operands = operands_of(call, nothing, 1, false, padded);
    const graph::ConcreteFunctionPtr concrete = compiled(call, graph::argument_list(operands));
    const graph::Graph& graph = concrete->segments[0].program->graph();
    for (const graph::Value& value : graph.values) {
      if (value.source == graph::Value::Source::range) state_.place_of(value.range);
    }
    for (const graph::Node& node : graph.nodes) {
      if (!node.op().writes_ranges) continue;
      for (const graph::ValueId range : node.ranges)
        written.insert(state_.place_of(graph.at(range).range));
    }
  }
  updated_ = state_.ranges().size();
  for (const AssignedVariable& one : assigned_) written.insert(state_.place_of(one.range));
  for (size_t i = 0; i < state_.ranges().size(); ++i) {
    if (!written.contains(i)) settings_.push_back(i);
  }
}

void RangeServer::add_call(const ServerStep& step, const PushedGradients& call,
                           size_t first_variable, bool counts, const ParameterLayout& layout,
                           int index) {
  const size_t first = pieces_.size();
  ServerUpdate::Operands operands{.counts = counts};
  for (const ServerPiece& piece : layout.pieces(index)) {
    if (piece.variable < first_variable) continue;
    const size_t own = piece.variable - first_variable;
    if (own >= call.variables.size()) continue;
    const Variable& variable = call.variables[own];
    const Variable elements = elements_of(variable, piece.begin, piece.count());
    RangePiece& own_piece =
        pieces_.emplace_back(RangePiece{elements.body()->range, piece.variable, piece.begin});
    if (step.has_row_gradients()[piece.variable]) {
      own_piece.row_elements = variable.shape().count() / variable.shape().extent(0);
      own_piece.reads_rows = step.reads_rows()[piece.variable];
      own_piece.updates_rows = sparse_update_;
    }
    if (own_piece.updates_rows && call.update->accumulates()) {
      throw Unimplemented("ParameterServerStrategy: sparse_update of gradients that accumulate");
    }
    operands.variables.push_back(variable);
  }
  operands.elements = [this, first](size_t i, const Variable& whole, int64_t elements) {
    return this->elements(first + i, whole, elements);
  };
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
      {first, count, call.update,
       std::make_unique<FlatFunction>(update, FunctionOptions{.name = "server_update"}),
       call.update->steps(), counts, call.limits, first_variable, call.variables.size()});
}

PushAnswer RangeServer::push(const PushStamp& stamp, const Contribution& given) {
  using enum PushAnswer::Outcome;
  std::vector<std::vector<std::byte>> whole;
  const Contribution contribution = with_all_rows(given, whole);
  const std::lock_guard lock(mutex_);
  const PushAnswer answer = ledger_.admit(stamp);
  if (answer.outcome == applied) apply(contribution, answer.scale);
  if (answer.outcome == held) held_.hold(stamp.ticket, contribution, pieces_);
  return answer;
}

/// Elements of a variable, or of a slot of it: a piece's own, or, for rows of it, some aside.
Variable RangeServer::elements(size_t piece, const Variable& whole, int64_t count) {
  const RangePiece& own = pieces_[piece];
  const Variable place = elements_of(whole, own.begin, own.range.count);
  if (count == own.range.count) return place;
  const StoreBlock& block = *whole.body()->range.block;
  auto body = std::make_shared<VariableBody>(*whole.body());
  auto aside = std::make_shared<StoreBlock>(block.dtype(), count, block.devices(), block.owner());
  body->shape = Shape{count};
  body->range = {.block = aside, .offset = aside->take(count, whole.name()), .count = count};
  std::vector<Aside>& known = asides_[{piece, count}];
  std::erase_if(known, [&](const Aside& each) { return each.place == place.body()->range; });
  known.push_back({place.body()->range, body->range});
  return Variable(std::move(body));
}

/// How many elements an update of `count` is compiled for: few numbers, none of which is that of
/// the whole piece.
int64_t RangeServer::room_for(size_t piece, int64_t count) const {
  constexpr uint64_t kLeast = 1024;
  auto room = static_cast<int64_t>(std::bit_ceil(std::max(kLeast, static_cast<uint64_t>(count))));
  return room == pieces_[piece].range.count ? 2 * room : room;
}

/// Copies the rows that gradients have to where they are updated, or back from there.
void RangeServer::move_rows(const Call& call, const Contribution& contribution, Way way) const {
  for (size_t i = call.first; i < call.first + call.count; ++i) {
    const RangePiece& piece = pieces_[i];
    if (!piece.updates_rows) continue;
    const std::vector<int64_t>& rows = *contribution.rows[i];
    const size_t size = size_of(piece.range.block->dtype());
    const int64_t room = room_for(i, static_cast<int64_t>(piece.bytes_of(&rows) / size));
    for (const Aside& each : asides_.at({i, room})) {
      char* const place = static_cast<char*>(ServerState::address_of(each.place));
      char* aside = static_cast<char*>(ServerState::address_of(each.aside));
      if (way == Way::back) each.place.block->settle_loans();
      piece.for_each_part(&rows, [&](size_t offset, size_t bytes) {
        way == Way::out ? std::memcpy(aside, place + offset, bytes)
                        : std::memcpy(place + offset, aside, bytes);
        aside += bytes;
      });
    }
  }
}

/// The same with gradients of zero for the rows that have none; these are kept in `whole`.
Contribution RangeServer::with_all_rows(const Contribution& given,
                                        std::vector<std::vector<std::byte>>& whole) const {
  Contribution all = given;
  for (size_t i = 0; i < given.rows.size(); ++i) {
    if (given.rows[i] == nullptr || pieces_[i].updates_rows) continue;
    const RangePiece& piece = pieces_[i];
    all.rows[i] = nullptr;
    std::vector<std::byte>& dense = whole.emplace_back(piece.bytes());
    const auto* from = static_cast<const std::byte*>(given.pieces[i]);
    piece.for_each_part(given.rows[i], [&](size_t offset, size_t bytes) {
      std::memcpy(dense.data() + offset, from, bytes);
      from += bytes;
    });
    all.pieces[i] = dense.data();
  }
  return all;
}

int64_t RangeServer::pull(int64_t step, std::span<void* const> to, const RowLists& rows,
                          const Squares& squares) {
  const std::lock_guard lock(mutex_);
  commit_locked(step, squares);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const char* const from = static_cast<const char*>(ServerState::address_of(pieces_[i].range));
    pieces_[i].for_each_part(rows_at(rows, i), [&](size_t offset, size_t bytes) {
      std::memcpy(static_cast<char*>(to[i]) + offset, from + offset, bytes);
    });
  }
  return ledger_.version();
}

int64_t RangeServer::append_values(int64_t step, std::string& bytes, const RowLists& rows,
                                   const Squares& squares) {
  const std::lock_guard lock(mutex_);
  commit_locked(step, squares);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const char* const from = static_cast<const char*>(ServerState::address_of(pieces_[i].range));
    pieces_[i].for_each_part(
        rows_at(rows, i), [&](size_t offset, size_t count) { bytes.append(from + offset, count); });
  }
  return ledger_.version();
}

void RangeServer::append_assigned(std::string& bytes) const {
  const std::lock_guard lock(mutex_);
  for (size_t i = first_assigned(); i < pieces_.size(); ++i) {
    bytes.append(static_cast<const char*>(ServerState::address_of(pieces_[i].range)),
                 pieces_[i].bytes());
  }
}

std::vector<uint64_t> RangeServer::checksums() const {
  const std::lock_guard lock(mutex_);
  return state_.checksums();
}

void RangeServer::make_state() const {
  const std::lock_guard lock(mutex_);
  state_.make();
}

void RangeServer::write_state(size_t place, const void* bytes) {
  const std::lock_guard lock(mutex_);
  state_.write(place, bytes);
}

void RangeServer::copy_state(uint64_t offset, std::span<char> to) const {
  const std::lock_guard lock(mutex_);
  state_.copy(offset, to);
}

void RangeServer::write_state_part(uint64_t offset, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  state_.write_part(offset, bytes);
}

void RangeServer::keep_assigned_apart() {
  const std::lock_guard lock(mutex_);
  for (size_t place = updated_; place < state_.ranges().size(); ++place) {
    const StoreRange variable = state_.ranges()[place];
    const StoreRange apart = state_.keep_apart(place);
    for (size_t i = 0; i < assigned_.size(); ++i) {
      if (assigned_[i].range != variable) continue;
      assigned_[i].range = apart;
      pieces_[first_assigned() + i].range = apart;
    }
  }
}

void RangeServer::write_variables(uint64_t offset, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  state_.write_variables(offset, bytes);
}

void RangeServer::set_steps(const std::vector<int64_t>& steps) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < calls_.size(); ++i) {
    calls_[i].step = i < steps.size() ? steps[i] : calls_[i].rule->steps();
  }
}

std::vector<int64_t> RangeServer::steps() const {
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> steps;
  for (const Call& call : calls_) steps.push_back(call.step);
  return steps;
}

RangeServer::Notes RangeServer::notes(const std::unique_lock<std::mutex>&) const {
  Notes now{.ledger = ledger_.save(), .steps = {}};
  for (const Call& call : calls_) now.steps.push_back(call.step);
  return now;
}

RangeServer::Snapshot RangeServer::snapshot(int64_t step, uint64_t offset, size_t most,
                                            const Squares& squares) {
  const std::unique_lock lock = this->lock();
  commit_locked(step, squares);
  Snapshot now{.notes = notes(lock), .state = {}};
  now.state.resize(state_.bytes_from(offset, most));
  state_.copy(offset, now.state);
  return now;
}

void RangeServer::restore_ledger(const std::string& saved, int64_t generation) {
  generation_ = generation;
  meeting_.clear(generation);
  const std::lock_guard lock(mutex_);
  ledger_.restore(saved);
  held_.forget_all();
  sum_ = {};
  norms_ = {};
}

void RangeServer::commit(int64_t step, const Squares& squares) {
  const std::lock_guard lock(mutex_);
  commit_locked(step, squares);
}

StalenessStatistics RangeServer::statistics() const {
  const std::lock_guard lock(mutex_);
  return ledger_.statistics();
}

void RangeServer::commit_locked(int64_t step, const Squares& squares) {
  if (clips() && squares.empty()) return;
  while (const std::optional<int64_t> whole = ledger_.commit(step)) apply_step(*whole, squares);
}

bool RangeServer::clips() const {
  return std::ranges::any_of(calls_, [](const Call& call) { return call.limits.is_any(); });
}

RangeServer::NormPart RangeServer::norm_part(int64_t step) {
  const std::lock_guard lock(mutex_);
  if (sum_.step == step - 1) return norms_;
  if (!ledger_.is_whole(step - 1)) return {};
  sum_ = held_.sum(step - 1, pieces_, assigned_);
  norms_ = {};
  norms_.squares.assign(gradients_.size(), 0);
  for (size_t i = 0; i < first_assigned(); ++i) {
    const RangePiece& piece = pieces_[i];
    const std::vector<std::byte>& own = sum_.pieces[i];
    if (has_exact_norms()) {
      norms_.elements.append(reinterpret_cast<const char*>(own.data()), own.size());
      continue;
    }
    norms_.squares[piece.variable] += squares_of(piece.range.block->dtype(), own);
  }
  return norms_;
}

RangeServer::Squares RangeServer::joined(
    const std::vector<NormPart>& parts,
    const std::vector<const std::vector<RangePiece>*>& pieces) const {
  Squares all(gradients_.size());
  std::vector<std::vector<std::byte>> whole;
  for (const TensorType& type : gradients_) whole.emplace_back(type.bytes());
  for (size_t s = 0; s < parts.size(); ++s) {
    if (parts[s].squares.size() != all.size()) return {};
    for (size_t v = 0; v < all.size(); ++v) all[v] += parts[s].squares[v];
    if (!has_exact_norms()) continue;
    std::string_view left = parts[s].elements;
    for (const RangePiece& piece : *pieces[s]) {
      if (piece.variable >= whole.size()) break;  // What steps assign.
      if (left.size() < piece.bytes()) throw DataLoss("a server has not told all of a gradient");
      const size_t size = size_of(piece.range.block->dtype());
      std::memcpy(whole[piece.variable].data() + static_cast<size_t>(piece.begin) * size,
                  left.data(), piece.bytes());
      left.remove_prefix(piece.bytes());
    }
  }
  if (!has_exact_norms()) return all;
  Tensors tensors;
  for (size_t v = 0; v < whole.size(); ++v) {
    tensors.push_back(
        Tensor::wrap(whole[v].data(), gradients_[v].dtype, gradients_[v].shape, nullptr));
  }
  const graph::ArgumentList list = graph::argument_list(tensors);
  const RunScope running(strategy_);
  const graph::ConcreteFunctionPtr concrete = squares_of_.body()->find_or_compile(
      {.tensors = list, .rows = graph::Arguments::kUnequal}, {.replicas = replicas_});
  const graph::BatchShard shard{.rows = 1};
  const graph::Results results =
      squares_of_.body()->run(*concrete, {.tensors = list, .shards = {&shard, 1}});
  for (size_t v = 0; v < all.size(); ++v) {
    const Tensor sum = results.at(0, v);
    all[v] =
        sum.dtype() == DType::float32 ? static_cast<double>(sum.item<float>()) : sum.item<double>();
  }
  return all;
}

/// Brings gradients to the norms that they may have.
void RangeServer::clip(StepSum& sum, const Squares& squares) const {
  for (const Call& call : calls_) {
    if (!call.limits.is_any()) continue;
    double all = 0;
    for (size_t v = 0; v < call.variables; ++v) all += squares.at(call.first_variable + v);
    for (size_t i = call.first; i < call.first + call.count; ++i) {
      const RangePiece& piece = pieces_[i];
      const DType dtype = piece.range.block->dtype();
      const double scale = call.limits.all
                               ? scale_of_all(all, *call.limits.all)
                               : scale_of_one(dtype, squares[piece.variable], *call.limits.each);
      multiply(dtype, sum.pieces[i], scale);
    }
  }
}

void RangeServer::apply_step(int64_t step, const Squares& squares) {
  StepSum sum = sum_.step == step ? std::move(sum_) : held_.sum(step, pieces_, assigned_);
  clip(sum, squares);
  apply(sum.contribution, 1);
  held_.forget(step);
  sum_ = {.step = step};  // The squares stay known.
}

void RangeServer::apply(const Contribution& contribution, double scale) {
  for (size_t c = 0; c < calls_.size(); ++c) {
    update(calls_[c], contribution, scale, contribution.conditions[c]);
  }
  for (size_t i = 0; i < assigned_.size(); ++i) {
    assign(assigned_[i], contribution.pieces[first_assigned() + i]);
  }
}

/// Gradients of rows have zeros behind them, in `padded`.
Tensors RangeServer::operands_of(const Call& call, const Contribution& contribution, double scale,
                                 bool condition,
                                 std::vector<std::vector<std::byte>>& padded) const {
  Tensors tensors;
  for (size_t i = call.first; i < call.first + call.count; ++i) {
    const StoreRange& range = pieces_[i].range;
    const DType dtype = range.block->dtype();
    const std::vector<int64_t>* const rows = rows_at(contribution.rows, i);
    if (rows == nullptr) {
      tensors.push_back(wrapped(contribution.pieces[i], dtype, range.count));
      continue;
    }
    const size_t bytes = pieces_[i].bytes_of(rows);
    const int64_t room = room_for(i, static_cast<int64_t>(bytes / size_of(dtype)));
    std::vector<std::byte>& all = padded.emplace_back(static_cast<size_t>(room) * size_of(dtype));
    std::copy_n(static_cast<const std::byte*>(contribution.pieces[i]), bytes, all.data());
    tensors.push_back(wrapped(all.data(), dtype, room));
  }
  tensors.emplace_back(call.step);
  tensors.emplace_back(scale);
  tensors.emplace_back(condition);
  return tensors;
}

graph::ConcreteFunctionPtr RangeServer::compiled(Call& call,
                                                 const graph::ArgumentList& list) const {
  const RunScope running(strategy_);
  const PartsScope parts;
  // No argument has the rows of a batch.
  return call.update->body()->find_or_compile({.tensors = list, .rows = graph::Arguments::kUnequal},
                                              {.replicas = replicas_});
}

void RangeServer::update(Call& call, const Contribution& contribution, double scale,
                         bool condition) {
  if (call.count == 0 && !call.counts) return;
  std::vector<std::vector<std::byte>> padded;
  const Tensors tensors = operands_of(call, contribution, scale, condition, padded);
  const graph::ArgumentList list = graph::argument_list(tensors);
  const graph::ConcreteFunctionPtr concrete = compiled(call, list);
  move_rows(call, contribution, Way::out);
  const graph::BatchShard shard{.rows = 1};
  const PartsScope parts;
  call.update->body()->run(*concrete, {.tensors = list, .shards = {&shard, 1}});
  move_rows(call, contribution, Way::back);
  if (condition) ++call.step;
}

void RangeServer::assign(const AssignedVariable& variable, const void* value) const {
  const StoreRange& range = variable.range;
  range.block->settle_loans();
  void* const here = ServerState::address_of(range);
  if (variable.change == AssignedVariable::Change::set) {
    std::memcpy(here, value, variable.bytes());
  } else {
    const void* const both[] = {here, value};
    collective::sum_elements(range.block->dtype(), both, here, range.count);
  }
}

}  // namespace tandem::distribute
