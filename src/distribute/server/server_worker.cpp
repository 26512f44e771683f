#include "distribute/server/server_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>

#include "collective/element_sum.h"
#include "profile/span.h"
#include "tandem/error.h"
#include "tensor/shared_stores.h"

namespace tandem::distribute {
namespace {

graph::Replicas replica_of(const ServerWorker::Options& options) {
  graph::Replicas replicas{.devices = {options.device},
                           .owner = options.owner,
                           .single_threaded = options.single_threaded,
                           .team = options.team};
  if (options.shares > 1) {
    replicas.first = options.index;
    replicas.in_all_processes = options.shares;
  }
  return replicas;
}

template <class T>
void subtract(void* from, const void* what, int64_t count) {
  for (int64_t i = 0; i < count; ++i) static_cast<T*>(from)[i] -= static_cast<const T*>(what)[i];
}

/// What a step has added to a variable; `value` becomes it.
void make_difference(const AssignedVariable& variable, void* value, const void* before) {
  const int64_t count = variable.range.count;
  switch (variable.range.block->dtype()) {
    case DType::float32:
      return subtract<float>(value, before, count);
    case DType::float64:
      return subtract<double>(value, before, count);
    case DType::int32:
      return subtract<int32_t>(value, before, count);
    case DType::int64:
      return subtract<int64_t>(value, before, count);
    default:
      throw Unimplemented(fmt::format(
          "ParameterServerStrategy: a step adds to variable {} of {}; float32, float64, int32 and "
          "int64 are accepted",
          variable.range.name(), name_of(variable.range.block->dtype())));
  }
}

/// Where the rows of one of the values lie in the batch that they are together.
BatchPlace place_among(const Tensors& values, int share) {
  BatchPlace place{.begin_row = 0, .global_rows = 0};
  for (int i = 0; i < static_cast<int>(values.size()); ++i) {
    const Tensor& value = values[static_cast<size_t>(i)];
    const int64_t rows = value.rank() == 0 ? 0 : value.shape().extent(0);
    if (i < share) place.begin_row += rows;
    place.global_rows += rows;
  }
  return place;
}

void* address_in(const StoreRange& copy, int64_t element = 0) {
  return static_cast<char*>(copy.data(*copy.block->components()[0]->device())) +
         static_cast<size_t>(element) * size_of(copy.block->dtype());
}

std::vector<int64_t> numbers_in(const Tensor& rows) {
  if (rows.dtype() == DType::int64) return rows.to_vector<int64_t>();
  const std::vector<int32_t> numbers = rows.to_vector<int32_t>();
  return {numbers.begin(), numbers.end()};
}

/// The rows, of some in ascending order, that a piece has elements of, and where the first of these
/// elements is among those of all of them.
struct PieceOfRows {
  std::vector<int64_t> rows;
  int64_t first_element = 0;
};

PieceOfRows rows_in(const RangePiece& piece, const std::vector<int64_t>& rows) {
  const int64_t length = piece.row_elements;
  const auto first = std::ranges::lower_bound(rows, piece.begin / length);
  const auto end =
      std::ranges::lower_bound(rows, (piece.begin + piece.range.count + length - 1) / length);
  PieceOfRows part{.rows = {first, end}};
  part.first_element = (first - rows.begin()) * length;
  if (first != end) part.first_element += std::max<int64_t>(piece.begin - *first * length, 0);
  return part;
}

template <class T>
void add_row(std::byte* to, const void* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    reinterpret_cast<T*>(to)[i] += static_cast<const T*>(from)[i];
  }
}

/// Gradients of rows of which some may be there several times; these are summed in their order.
RangeServer::RowGradients summed_rows(const Tensor& values, const Tensor& rows) {
  const std::vector<int64_t> numbers = numbers_in(rows);
  RangeServer::RowGradients summed{.rows = numbers, .values = {}};
  std::ranges::sort(summed.rows);
  summed.rows.erase(std::ranges::unique(summed.rows).begin(), summed.rows.end());
  if (numbers.empty()) return summed;
  const int64_t length = values.shape().count() / static_cast<int64_t>(numbers.size());
  const size_t bytes = static_cast<size_t>(length) * size_of(values.dtype());
  summed.values.resize(summed.rows.size() * bytes);
  const auto* from = static_cast<const std::byte*>(values.body()->data());
  for (const int64_t row : numbers) {
    const auto place = std::ranges::lower_bound(summed.rows, row) - summed.rows.begin();
    std::byte* const to = summed.values.data() + static_cast<size_t>(place) * bytes;
    values.dtype() == DType::float32 ? add_row<float>(to, from, length)
                                     : add_row<double>(to, from, length);
    from += bytes;
  }
  return summed;
}

/// What a profile calls an update: "push, staleness 3".
const char* name_of_push(int64_t staleness) {
  static constexpr int64_t kMost = 64;
  static const auto* const names = [] {
    auto* all = new std::vector<std::string>;
    for (int64_t i = 0; i < kMost; ++i) all->push_back(fmt::format("push, staleness {}", i));
    all->push_back(fmt::format("push, staleness {} or more", kMost));
    return all;
  }();
  return (*names)[static_cast<size_t>(std::min(staleness, kMost))].c_str();
}

/// The number of a push. No two of this process have the same one: a process that does several
/// shares of a step is one worker to the servers.
int64_t next_sequence() {
  static std::atomic<int64_t> last{0};
  return ++last;
}

/// What must live until it is sent.
struct SentGradients {
  std::shared_ptr<const Tensors> results;
  std::vector<RangeServer::RowGradients> rows;  // By variable.
  std::deque<std::vector<int64_t>> lists;       // The rows that pieces have.
};

}  // namespace

ServerWorker::ServerWorker(const Strategy& strategy, const Options& options)
    : strategy_(strategy),
      index_(options.index),
      incarnation_(options.incarnation),
      copies_(options.device, options.owner, options.use),
      group_(options.shares > 1 ? std::make_shared<ShareGroup>(options.shares) : nullptr),
      body_(
          fmt::format("worker {}", options.index),
          [&] {
            graph::Replicas replicas = replica_of(options);
            replicas.adapt = [this](graph::Graph& graph) { step_->adapt(graph, copies_); };
            return replicas;
          }(),
          group_) {}

/// The arguments of one share of a batch. Where workers do not share batches that is all.
PerReplicas ServerWorker::part_of(std::span<const PerReplica> arguments, int share) const {
  PerReplicas part;
  for (const PerReplica& argument : arguments) {
    const bool is_dealt = argument.is_split() || argument.values();
    if (!is_dealt) {
      part.push_back(argument);
      continue;
    }
    BatchPlace place = argument.place();
    if (argument.is_split()) {
      const graph::BatchShard shard =
          graph::shard_of(place.global_rows, share, argument.span().all);
      place.begin_row = shard.row_offset;
    } else if (place.global_rows < 0) {
      place = place_among(*argument.values(), share);
    }
    part.emplace_back(Tensors{argument.value(share)}, place);
  }
  return part;
}

void ServerWorker::compile(ServerStep& step, std::span<const PerReplica> arguments) {
  step_ = &step;
  body_.compile(strategy_, step.function(), part_of(arguments, 0));
}

/// The addresses of the servers' pieces within the copies.
void ServerWorker::take_places(const ServerStep& step, const ServerLinks& servers) {
  std::vector<StoreRange> variables;
  for (const PushedGradients& call : step.pushed()) {
    for (const Variable& variable : call.variables) {
      variables.push_back(copies_.of(variable.body()->range));
    }
  }
  for (const AssignedVariable& one : step.assigned()) variables.push_back(copies_.of(one.range));
  places_.clear();
  for (const auto& server : servers) {
    std::vector<void*>& places = places_.emplace_back();
    for (const RangePiece& piece : server->pieces()) {
      places.push_back(address_in(variables[piece.variable], piece.begin));
    }
  }
  read_.clear();
  for (const AssignedVariable& one : step.assigned()) read_.emplace_back(one.bytes());
  placed_ = &step;
}

/// What runs from now on is of this share.
void ServerWorker::set_share(int share) {
  if (group_) *static_cast<int32_t*>(address_in(copies_.share())) = share;
}

/// What the step takes as sums over the shares is computed here for all of them.
void ServerWorker::take_sums(const ServerStep& step, std::span<const PerReplica> arguments,
                             const op::RandomRun& random) {
  if (step.sums().empty()) return;
  std::vector<Tensors> shares;
  for (int share = 0; share < step.shares(); ++share) {
    set_share(share);
    const PerReplicas part = part_of(arguments, share);
    const graph::Results own = body_.run(strategy_, step.sums_function(), part, &random);
    Tensors& values = shares.emplace_back();
    for (size_t i = 0; i < step.sums().size(); ++i) values.push_back(own.at(0, i));
  }
  for (size_t i = 0; i < step.sums().size(); ++i) {
    const TensorType& type = step.sums()[i];
    std::vector<const void*> values;
    for (const Tensors& share : shares) values.push_back(share[i].body()->data());
    collective::sum_elements(type.dtype, values, address_in(copies_.sum(i, type)),
                             type.shape.count());
  }
}

/// The rows that the step will read of the variables of which it reads some rows alone. Whether it
/// does depends on the arguments, for which it is traced.
ServerWorker::RowsByVariable ServerWorker::rows_read(const ServerStep& step,
                                                     std::span<const PerReplica> part,
                                                     const op::RandomRun& random) {
  RowsByVariable rows(step.has_row_gradients().size());
  if (!step.has_any_row_gradients()) return rows;
  const graph::Results found = body_.run(strategy_, step.rows_function(), part, &random);
  size_t next = 0;
  for (size_t v = 0; v < rows.size(); ++v) {
    if (!step.has_row_gradients()[v]) continue;
    std::vector<int64_t> numbers = numbers_in(found.at(0, next++));
    std::ranges::sort(numbers);
    numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
    const bool reads_all = !numbers.empty() && numbers[0] == ServerStep::kAllRows;
    if (!reads_all) rows[v] = std::move(numbers);
  }
  return rows;
}

/// Rows that former steps have read are forgotten once they take much memory; so are those that
/// have come for this one.
void ServerWorker::release_rows(const ServerStep& step, const ServerLinks& servers,
                                const RowsByVariable& rows) {
  constexpr size_t kMost = size_t{64} << 20;
  constexpr size_t kPage = 4096;
  size_t place = 0;
  size_t taken = 0;
  for (const PushedGradients& call : step.pushed()) {
    for (const Variable& variable : call.variables) {
      const auto& own = rows[place++];
      if (!own || own->empty()) continue;
      const StoreRange& range = variable.body()->range;
      const size_t row = static_cast<size_t>(range.count / variable.shape().extent(0)) *
                         size_of(range.block->dtype());
      taken += own->size() * (row / kPage + 1) * kPage;
    }
  }
  pages_of_rows_ += taken;
  if (pages_of_rows_ <= kMost) return;
  place = 0;
  for (const PushedGradients& call : step.pushed()) {
    for (const Variable& variable : call.variables) {
      if (step.reads_rows()[place++]) release_memory(copies_.of(variable.body()->range));
    }
  }
  for (const auto& server : servers) server->forget_values();
  pages_of_rows_ = taken;
}

/// The versions of what was read; none where some server says that the ticket is void.
std::vector<int64_t> ServerWorker::pull(const ServerLinks& servers, const WorkTicket& ticket,
                                        const RowsByVariable& rows) {
  const profile::Span span("pull", profile::Activity::copy);
  RangeServer::Squares squares;
  if (step_->clips()) {
    std::vector<RangeServer::NormPart> parts;
    std::vector<const std::vector<RangePiece>*> all_pieces;
    for (const auto& server : servers) server->start_norms(ticket.step());
    for (const auto& server : servers) {
      parts.push_back(server->finish_norms());
      all_pieces.push_back(&server->pieces());
    }
    squares = servers[0]->mirror().joined(parts, all_pieces);
  }
  std::vector<int64_t> versions;
  std::vector<std::vector<int64_t>> lists;  // One for each piece of each server.
  size_t pieces = 0;
  for (const auto& server : servers) pieces += server->pieces().size();
  lists.reserve(pieces);
  for (size_t s = 0; s < servers.size(); ++s) {
    RowLists own;
    for (const RangePiece& piece : servers[s]->pieces()) {
      own.push_back(nullptr);
      if (piece.row_elements == 0 || !rows[piece.variable]) continue;
      lists.push_back(rows_in(piece, *rows[piece.variable]).rows);
      own.back() = &lists.back();
    }
    servers[s]->start_pull(ticket, own, places_[s], squares);
  }
  for (const auto& server : servers) {
    const std::optional<int64_t> version = server->finish_pull();
    if (version) versions.push_back(*version);
  }
  if (versions.size() < servers.size()) return {};
  const size_t first = places_[0].size() - read_.size();
  for (size_t i = 0; i < read_.size(); ++i) {
    std::memcpy(read_[i].data(), places_[0][first + i], read_[i].size());
  }
  return versions;
}

/// Whether all servers have it.
bool ServerWorker::push(const ServerStep& step, const ServerLinks& servers,
                        const WorkTicket& ticket, const std::shared_ptr<const Tensors>& results,
                        std::span<const int64_t> versions, const RowsByVariable& next_rows) {
  const int64_t start_ns = profile::is_profiling() ? profile::now_ns() : 0;
  auto sent = std::make_shared<SentGradients>();
  sent->results = results;
  std::vector<const void*> gradients;  // By variable, then what was assigned.
  std::vector<bool> conditions;
  size_t next = step.results();
  for (const PushedGradients& call : step.pushed()) {
    for (size_t i = 0; i < call.variables.size(); ++i) {
      const Tensor& gradient = (*results)[next++];
      const bool of_rows = step.has_row_gradients()[gradients.size()];
      sent->rows.push_back(of_rows ? summed_rows(gradient, (*results)[next++])
                                   : RangeServer::RowGradients());
      gradients.push_back(of_rows ? static_cast<const void*>(sent->rows.back().values.data())
                                  : gradient.body()->data());
    }
    conditions.push_back((*results)[next++].item<bool>());
  }
  const size_t first = places_[0].size() - read_.size();
  for (size_t i = 0; i < read_.size(); ++i) {
    const AssignedVariable& one = step.assigned()[i];
    void* const value = places_[0][first + i];
    if (one.change == AssignedVariable::Change::add) make_difference(one, value, read_[i].data());
    gradients.push_back(value);
  }
  const int64_t sequence = next_sequence();
  for (size_t s = 0; s < servers.size(); ++s) {
    Contribution contribution{.pieces = {}, .conditions = conditions, .rows = {}, .owner = sent};
    RowLists next_lists;
    for (const RangePiece& piece : servers[s]->pieces()) {
      if (!next_rows.empty()) next_lists.push_back(nullptr);
      if (!next_rows.empty() && piece.row_elements > 0 && next_rows[piece.variable]) {
        PieceOfRows part = rows_in(piece, *next_rows[piece.variable]);
        next_lists.back() = &sent->lists.emplace_back(std::move(part.rows));
      }
      const size_t size = size_of(piece.range.block->dtype());
      size_t offset = static_cast<size_t>(piece.begin) * size;
      contribution.rows.push_back(nullptr);
      if (piece.row_elements > 0) {
        PieceOfRows part = rows_in(piece, sent->rows[piece.variable].rows);
        offset = static_cast<size_t>(part.first_element) * size;
        contribution.rows.back() = &sent->lists.emplace_back(std::move(part.rows));
      }
      contribution.pieces.push_back(static_cast<const char*>(gradients[piece.variable]) + offset);
    }
    servers[s]->start_push({.worker = index_,
                            .incarnation = incarnation_,
                            .sequence = sequence,
                            .ticket = ticket.number,
                            .base_version = versions[s]},
                           contribution, next_lists, places_[s]);
  }
  bool is_made = true;
  int64_t staleness = 0;
  for (const auto& server : servers) {
    const PushAnswer answer = server->finish_push();
    is_made = answer.outcome != PushAnswer::Outcome::refused && is_made;
    staleness = std::max(staleness, answer.staleness);
  }
  if (profile::is_profiling()) {
    profile::add({name_of_push(staleness), profile::Activity::copy, start_ns, profile::now_ns()});
  }
  return is_made;
}

/// Nothing where the ticket turns out to be void when the step needs what others compute.
std::optional<Tensors> ServerWorker::run_step(const ServerStep& step,
                                              std::span<const PerReplica> part,
                                              const op::RandomRun& random) {
  try {
    Tensors results;
    const graph::Results ran = body_.run(strategy_, step.function(), part, &random);
    for (size_t i = 0; i < ran.count(); ++i) results.push_back(ran.at(0, i));
    return results;
  } catch (const Error&) {
    if (group_ && group_->is_void()) return std::nullopt;
    throw;
  }
}

std::optional<Tensors> ServerWorker::run(ServerStep& step, const ServerLinks& servers,
                                         std::span<const PerReplica> arguments,
                                         const WorkTicket& ticket, const op::RandomRun& random,
                                         const std::function<void(int worker)>& before_step,
                                         const FindNext& find_next) {
  step_ = &step;
  const PerReplicas part = part_of(arguments, ticket.share);
  if (placed_ != &step) take_places(step, servers);
  take_sums(step, arguments, random);
  set_share(ticket.share);
  const RowsByVariable rows = rows_read(step, part, random);
  release_rows(step, servers, rows);
  const std::vector<int64_t> versions = pull(servers, ticket, rows);
  if (versions.empty()) return std::nullopt;
  if (before_step) before_step(index_);
  if (group_) group_->enter(*servers[0], ticket);
  std::optional<Tensors> ran = run_step(step, part, random);
  if (!ran) return std::nullopt;
  const auto results = std::make_shared<const Tensors>(std::move(*ran));
  RowsByVariable next_rows;
  const NextBatch* const next = find_next ? find_next() : nullptr;
  if (next != nullptr) next_rows = rows_read(step, part_of(next->arguments, 0), next->random);
  if (!push(step, servers, ticket, results, versions, next_rows)) return std::nullopt;
  return Tensors(results->begin(), results->begin() + static_cast<ptrdiff_t>(step.results()));
}

}  // namespace tandem::distribute
