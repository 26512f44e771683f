#include "distribute/server/range_server.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "checkpoint/crc32c.h"
#include "collective/element_sum.h"
#include "device/mapped_memory.h"
#include "distribute/context.h"
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

const std::vector<int64_t>* rows_at(const RangeServer::RowLists& rows, size_t piece) {
  return piece < rows.size() ? rows[piece] : nullptr;
}

/// The squares of norms, as optimizers that clip by norms compute them.
Tensors sums_of_squares(const Tensors& gradients) {
  Tensors sums;
  for (const Tensor& gradient : gradients) sums.push_back(reduce_sum(square(gradient)));
  return sums;
}

}  // namespace

namespace {

/// Whether its values are made or not.
char* memory_of(const StoreRange& range) {
  const PartsScope parts;
  return static_cast<char*>(range.data(*range.block->components()[0]->device()));
}

}  // namespace

void* RangeServer::address_of(const StoreRange& range) {
  make_values(range);
  return memory_of(range);
}

RangeServer::RangeServer(const Strategy& strategy, graph::ReplicasPtr replicas,
                         const ServerStep& step, const ParameterLayout& layout, int index,
                         const LedgerOptions& options, bool sparse_update)
    : strategy_(strategy),
      replicas_(std::move(replicas)),
      options_(options),
      sparse_update_(sparse_update),
      meeting_(options.shares),
      ledger_(options),
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
  for (const Piece& piece : pieces_) most = std::max(most, piece.bytes());
  // Nobody reads them.
  const auto zeros = devices::MappedMemory::sparse(most);
  const Contribution nothing{.pieces = std::vector<const void*>(pieces_.size(), zeros->data()),
                             .conditions = {}};
  std::set<size_t> written;
  const auto place_of = [&](const StoreRange& range) {
    const auto known = std::ranges::find(state_, range);
    const auto place = static_cast<size_t>(known - state_.begin());
    if (known == state_.end()) state_.push_back(range);
    return place;
  };
  for (Call& call : calls_) {
    if (call.count == 0 && !call.counts) continue;
    std::vector<std::vector<std::byte>> padded;
    const Tensors operands = operands_of(call, nothing, 1, false, padded);
    const graph::ConcreteFunctionPtr concrete = compiled(call, graph::argument_list(operands));
    const graph::Graph& graph = concrete->segments[0].program->graph();
    for (const graph::Value& value : graph.values) {
      if (value.source == graph::Value::Source::range) place_of(value.range);
    }
    for (const graph::Node& node : graph.nodes) {
      if (!node.op().writes_ranges) continue;
      for (const graph::ValueId range : node.ranges)
        written.insert(place_of(graph.at(range).range));
    }
  }
  updated_ = state_.size();
  for (const AssignedVariable& one : assigned_) written.insert(place_of(one.range));
  for (size_t i = 0; i < state_.size(); ++i) {
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
    Piece& own_piece =
        pieces_.emplace_back(Piece{elements.body()->range, piece.variable, piece.begin});
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
  if (answer.outcome == held) {
    Held& kept = held_[stamp.ticket];
    kept.conditions = contribution.conditions;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const std::vector<int64_t>* const rows = rows_at(contribution.rows, i);
      const auto* bytes = static_cast<const std::byte*>(contribution.pieces[i]);
      kept.pieces.emplace_back(bytes, bytes + pieces_[i].bytes_of(rows));
      kept.rows.push_back(rows == nullptr ? std::vector<int64_t>() : *rows);
    }
  }
  return answer;
}

/// Elements of a variable, or of a slot of it: a piece's own, or, for rows of it, some aside.
Variable RangeServer::elements(size_t piece, const Variable& whole, int64_t count) {
  const Piece& own = pieces_[piece];
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
    const Piece& piece = pieces_[i];
    if (!piece.updates_rows) continue;
    const std::vector<int64_t>& rows = *contribution.rows[i];
    const size_t size = size_of(piece.range.block->dtype());
    const int64_t room = room_for(i, static_cast<int64_t>(piece.bytes_of(&rows) / size));
    for (const Aside& each : asides_.at({i, room})) {
      char* const place = static_cast<char*>(address_of(each.place));
      char* aside = static_cast<char*>(address_of(each.aside));
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
RangeServer::Contribution RangeServer::with_all_rows(
    const Contribution& given, std::vector<std::vector<std::byte>>& whole) const {
  Contribution all = given;
  for (size_t i = 0; i < given.rows.size(); ++i) {
    if (given.rows[i] == nullptr || pieces_[i].updates_rows) continue;
    const Piece& piece = pieces_[i];
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
    const char* const from = static_cast<const char*>(address_of(pieces_[i].range));
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
    const char* const from = static_cast<const char*>(address_of(pieces_[i].range));
    pieces_[i].for_each_part(
        rows_at(rows, i), [&](size_t offset, size_t count) { bytes.append(from + offset, count); });
  }
  return ledger_.version();
}

void RangeServer::append_assigned(std::string& bytes) const {
  const std::lock_guard lock(mutex_);
  for (size_t i = first_assigned(); i < pieces_.size(); ++i) {
    bytes.append(static_cast<const char*>(address_of(pieces_[i].range)), pieces_[i].bytes());
  }
}

uint64_t RangeServer::checksum_of(const StoreRange& range) {
  if (is_unmade(range)) return kFirstValues;
  return checkpoint::crc32c(address_of(range), bytes_of(range));
}

std::vector<uint64_t> RangeServer::checksums() const {
  const std::lock_guard lock(mutex_);
  std::vector<uint64_t> sums;
  for (const StoreRange& range : state_) sums.push_back(checksum_of(range));
  return sums;
}

void RangeServer::make_state() const {
  const std::lock_guard lock(mutex_);
  for (const StoreRange& range : state_) make_values(range);
}

void RangeServer::write_state(size_t place, const void* bytes) {
  const std::lock_guard lock(mutex_);
  const StoreRange& range = state_.at(place);
  range.block->settle_loans();
  forget_unmade(range);
  std::memcpy(memory_of(range), bytes, bytes_of(range));
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

uint64_t RangeServer::state_bytes() const {
  uint64_t bytes = 0;
  for (const StoreRange& range : state_) bytes += bytes_of(range);
  return bytes;
}

/// Calls `take` with the parts of ranges that these bytes of the state are: where they begin in the
/// range, and how many they are.
template <class Take>
void RangeServer::for_each_state(uint64_t offset, size_t count, const Take& take) const {
  uint64_t begin = 0;  // Where the range begins.
  for (const StoreRange& range : state_) {
    const uint64_t end = begin + bytes_of(range);
    const uint64_t first = std::max(begin, offset);
    const uint64_t last = std::min<uint64_t>(end, offset + count);
    if (first < last) {
      take(range, first - begin, last - first);
    }
    begin = end;
  }
}

void RangeServer::copy_state(uint64_t offset, std::span<char> to) const {
  const std::lock_guard lock(mutex_);
  char* next = to.data();
  for_each_state(offset, to.size(), [&](const StoreRange& range, uint64_t begin, size_t bytes) {
    std::memcpy(next, static_cast<const char*>(address_of(range)) + begin, bytes);
    next += bytes;
  });
}

void RangeServer::write_state_part(uint64_t offset, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  const char* next = bytes.data();
  for_each_state(offset, bytes.size(), [&](const StoreRange& range, uint64_t begin, size_t count) {
    range.block->settle_loans();
    const size_t size = size_of(range.block->dtype());
    StoreRange written = range;
    written.offset += static_cast<int64_t>(begin / size);
    written.count = static_cast<int64_t>((begin + count + size - 1) / size - begin / size);
    forget_unmade(written);
    std::memcpy(memory_of(range) + begin, next, count);
    next += count;
  });
}

void RangeServer::keep_assigned_apart() {
  const std::lock_guard lock(mutex_);
  for (size_t place = updated_; place < state_.size(); ++place) {
    const StoreRange variable = state_[place];
    const std::vector<devices::DevicePtr> devices = {variable.block->components()[0]->device()};
    const auto block =
        std::make_shared<StoreBlock>(variable.block->dtype(), std::max<int64_t>(variable.count, 1),
                                     devices, variable.block->owner());
    const StoreRange apart{.block = block,
                           .offset = block->take(variable.count, variable.name()),
                           .count = variable.count};
    std::memcpy(address_of(apart), address_of(variable), bytes_of(variable));
    variables_.emplace(block.get(), variable);
    state_[place] = apart;
    for (size_t i = 0; i < assigned_.size(); ++i) {
      if (assigned_[i].range != variable) continue;
      assigned_[i].range = apart;
      pieces_[first_assigned() + i].range = apart;
    }
  }
}

void RangeServer::write_variables(uint64_t offset, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  const char* next = bytes.data();
  for_each_state(offset, bytes.size(), [&](const StoreRange& range, uint64_t begin, size_t count) {
    if (const auto found = variables_.find(range.block.get()); found != variables_.end()) {
      found->second.block->settle_loans();
      std::memcpy(static_cast<char*>(address_of(found->second)) + begin, next, count);
    }
    next += count;
  });
}

RangeServer::Snapshot RangeServer::snapshot(int64_t step, uint64_t offset, size_t most,
                                            const Squares& squares) {
  const std::unique_lock lock = this->lock();
  commit_locked(step, squares);
  Snapshot now{.notes = notes(lock), .state = {}};
  for_each_state(offset, most, [&](const StoreRange& range, uint64_t begin, size_t bytes) {
    now.state.append(static_cast<const char*>(address_of(range)) + begin, bytes);
  });
  return now;
}

void RangeServer::restore_ledger(const std::string& saved, int64_t generation) {
  generation_ = generation;
  meeting_.clear(generation);
  const std::lock_guard lock(mutex_);
  ledger_.restore(saved);
  held_.clear();
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

/// The sum of what all shares of the step have given, in the order of collective/tree.h.
RangeServer::Sum RangeServer::summed(int64_t step) const {
  const auto first = held_.find(step * options_.shares);
  const auto end = held_.lower_bound((step + 1) * options_.shares);
  const size_t first_assigned = this->first_assigned();
  Sum sum{.step = step, .contribution = {}, .pieces = {}, .rows = {}};
  sum.pieces.resize(pieces_.size());
  sum.rows.resize(pieces_.size());
  sum.contribution.rows.resize(pieces_.size());
  sum.contribution.conditions.assign(calls_.size(), true);
  for (auto share = first; share != end; ++share) {
    for (size_t c = 0; c < calls_.size(); ++c) {
      const bool is_on = sum.contribution.conditions[c] && share->second.conditions[c];
      sum.contribution.conditions[c] = is_on;
    }
  }
  for (size_t i = 0; i < pieces_.size(); ++i) {
    std::vector<const void*> values;
    for (auto share = first; share != end; ++share)
      values.push_back(share->second.pieces[i].data());
    if (pieces_[i].updates_rows) {
      sum_rows(i, step, sum);
      continue;
    }
    const bool is_summed = i < first_assigned || assigned_[i - first_assigned].is_summed;
    if (!is_summed || values.size() == 1) {
      sum.contribution.pieces.push_back(values[0]);
      continue;
    }
    sum.pieces[i].resize(pieces_[i].bytes());
    const StoreRange& range = pieces_[i].range;
    collective::sum_elements(range.block->dtype(), values, sum.pieces[i].data(), range.count);
    sum.contribution.pieces.push_back(sum.pieces[i].data());
  }
  return sum;
}

/// The same of a piece of which rows alone are updated: those that some share has.
void RangeServer::sum_rows(size_t piece, int64_t step, Sum& sum) const {
  const Piece& own = pieces_[piece];
  const auto first = held_.find(step * options_.shares);
  const auto end = held_.lower_bound((step + 1) * options_.shares);
  std::vector<int64_t>& rows = sum.rows[piece];
  for (auto share = first; share != end; ++share) {
    const std::vector<int64_t>& others = share->second.rows[piece];
    rows.insert(rows.end(), others.begin(), others.end());
  }
  std::ranges::sort(rows);
  rows.erase(std::ranges::unique(rows).begin(), rows.end());
  const size_t bytes = own.bytes_of(&rows);
  std::vector<std::vector<std::byte>> values;  // Each share's, with zeros for rows of others.
  std::vector<const void*> addresses;
  for (auto share = first; share != end; ++share) {
    std::vector<std::byte>& all = values.emplace_back(bytes);
    const std::vector<int64_t>& others = share->second.rows[piece];
    const std::byte* from = share->second.pieces[piece].data();
    std::byte* to = all.data();
    auto next = others.begin();
    for (const int64_t row : rows) {
      const std::vector<int64_t> one = {row};
      const size_t count = own.bytes_of(&one);
      if (next != others.end() && *next == row) {
        std::memcpy(to, from, count);
        from += count;
        ++next;
      }
      to += count;
    }
    addresses.push_back(all.data());
  }
  const DType dtype = own.range.block->dtype();
  sum.pieces[piece].resize(bytes);
  collective::sum_elements(dtype, addresses, sum.pieces[piece].data(),
                           static_cast<int64_t>(bytes / size_of(dtype)));
  sum.contribution.pieces.push_back(sum.pieces[piece].data());
  sum.contribution.rows[piece] = &rows;
}

namespace {

template <class T>
double sum_of_squares(const std::byte* data, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(reinterpret_cast<const T*>(data)[i]);
    sum += value * value;
  }
  return sum;
}

template <class T>
void multiply(std::byte* data, int64_t count, double scale) {
  for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(data)[i] *= static_cast<T>(scale);
}

/// What clipping by the norm of all gradients multiplies them by; NaN for an infinite norm, as in
/// Keras.
double scale_of_all(double squares, double limit) {
  const double norm = std::sqrt(squares);
  return limit / std::max(norm, limit) + (norm - norm);
}

/// What clipping by the norm of one gradient multiplies it by, in its own precision.
template <class T>
double scale_of_one(double squares, double limit) {
  const T norm = std::sqrt(static_cast<T>(squares));
  const auto most = static_cast<T>(limit);
  return static_cast<double>(most / std::max(norm, most));
}

}  // namespace

bool RangeServer::clips() const {
  return std::ranges::any_of(calls_, [](const Call& call) { return call.limits.is_any(); });
}

RangeServer::NormPart RangeServer::norm_part(int64_t step) {
  const std::lock_guard lock(mutex_);
  if (sum_.step == step - 1) return norms_;
  if (!ledger_.is_whole(step - 1)) return {};
  sum_ = summed(step - 1);
  norms_ = {};
  norms_.squares.assign(gradients_.size(), 0);
  for (size_t i = 0; i < first_assigned(); ++i) {
    const Piece& piece = pieces_[i];
    const std::vector<std::byte>& own = sum_.pieces[i];
    if (has_exact_norms()) {
      norms_.elements.append(reinterpret_cast<const char*>(own.data()), own.size());
      continue;
    }
    const bool is_single = piece.range.block->dtype() == DType::float32;
    const auto count = static_cast<int64_t>(own.size() / size_of(piece.range.block->dtype()));
    norms_.squares[piece.variable] += is_single ? sum_of_squares<float>(own.data(), count)
                                                : sum_of_squares<double>(own.data(), count);
  }
  return norms_;
}

RangeServer::Squares RangeServer::joined(
    const std::vector<NormPart>& parts,
    const std::vector<const std::vector<Piece>*>& pieces) const {
  Squares all(gradients_.size());
  std::vector<std::vector<std::byte>> whole;
  for (const TensorType& type : gradients_) whole.emplace_back(type.bytes());
  for (size_t s = 0; s < parts.size(); ++s) {
    if (parts[s].squares.size() != all.size()) return {};
    for (size_t v = 0; v < all.size(); ++v) all[v] += parts[s].squares[v];
    if (!has_exact_norms()) continue;
    std::string_view left = parts[s].elements;
    for (const Piece& piece : *pieces[s]) {
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
void RangeServer::clip(Sum& sum, const Squares& squares) const {
  for (const Call& call : calls_) {
    if (!call.limits.is_any()) continue;
    double all = 0;
    for (size_t v = 0; v < call.variables; ++v) all += squares.at(call.first_variable + v);
    for (size_t i = call.first; i < call.first + call.count; ++i) {
      const Piece& piece = pieces_[i];
      const bool is_single = piece.range.block->dtype() == DType::float32;
      const double own_squares = squares[piece.variable];
      const double scale = call.limits.all ? scale_of_all(all, *call.limits.all)
                           : is_single     ? scale_of_one<float>(own_squares, *call.limits.each)
                                           : scale_of_one<double>(own_squares, *call.limits.each);
      std::vector<std::byte>& own = sum.pieces[i];
      const auto count = static_cast<int64_t>(own.size() / size_of(piece.range.block->dtype()));
      is_single ? multiply<float>(own.data(), count, scale)
                : multiply<double>(own.data(), count, scale);
    }
  }
}

void RangeServer::apply_step(int64_t step, const Squares& squares) {
  Sum sum = sum_.step == step ? std::move(sum_) : summed(step);
  clip(sum, squares);
  apply(sum.contribution, 1);
  held_.erase(held_.find(step * options_.shares), held_.lower_bound((step + 1) * options_.shares));
  sum_ = {.step = step, .contribution = {}, .pieces = {}, .rows = {}};  // The squares stay known.
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
  void* const here = address_of(range);
  if (variable.change == AssignedVariable::Change::set) {
    std::memcpy(here, value, variable.bytes());
  } else {
    const void* const both[] = {here, value};
    collective::sum_elements(range.block->dtype(), both, here, range.count);
  }
}

}  // namespace tandem::distribute
