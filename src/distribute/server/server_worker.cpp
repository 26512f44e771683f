#include "distribute/server/server_worker.h"

#include <fmt/format.h>

#include <cstring>

#include "tandem/error.h"

namespace tandem::distribute {
namespace {

graph::Replicas replica_of(int index, const devices::DevicePtr& device, int shares, uint64_t owner,
                           bool single_threaded) {
  graph::Replicas replicas{.devices = {device}, .owner = owner, .single_threaded = single_threaded};
  if (shares > 1) {
    replicas.first = index;
    replicas.in_all_processes = shares;
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

}  // namespace

ServerWorker::ServerWorker(const Strategy& strategy, int index, devices::DevicePtr device,
                           int shares, uint64_t owner, bool single_threaded, uint64_t incarnation)
    : strategy_(strategy),
      index_(index),
      incarnation_(incarnation),
      copies_(device, owner),
      body_(fmt::format("worker {}", index), [&] {
        graph::Replicas replicas = replica_of(index, device, shares, owner, single_threaded);
        replicas.adapt = [this](graph::Graph& graph) { step_->adapt(graph, copies_); };
        return replicas;
      }()) {}

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
    for (const RangeServer::Piece& piece : server->pieces()) {
      places.push_back(address_in(variables[piece.variable], piece.begin));
    }
  }
  read_.clear();
  for (const AssignedVariable& one : step.assigned()) read_.emplace_back(one.bytes());
  placed_ = &step;
}

/// The versions of what was read; none where some server says that the ticket is void.
std::vector<int64_t> ServerWorker::pull(const ServerLinks& servers, int64_t step) {
  std::vector<int64_t> versions;
  for (const auto& server : servers) server->start_pull(step);
  for (size_t s = 0; s < servers.size(); ++s) {
    const std::optional<int64_t> version = servers[s]->finish_pull(places_[s]);
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
                        std::span<const int64_t> versions) {
  std::vector<const void*> gradients;  // By variable, then what was assigned.
  std::vector<bool> conditions;
  size_t next = step.results();
  for (const PushedGradients& call : step.pushed()) {
    for (size_t i = 0; i < call.variables.size(); ++i) {
      gradients.push_back((*results)[next++].body()->data());
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
  ++sequence_;
  for (size_t s = 0; s < servers.size(); ++s) {
    RangeServer::Contribution contribution{
        .pieces = {}, .conditions = conditions, .owner = results};
    for (const RangeServer::Piece& piece : servers[s]->pieces()) {
      const size_t offset = static_cast<size_t>(piece.begin) * size_of(piece.range.block->dtype());
      contribution.pieces.push_back(static_cast<const char*>(gradients[piece.variable]) + offset);
    }
    servers[s]->start_push({.worker = index_,
                            .incarnation = incarnation_,
                            .sequence = sequence_,
                            .ticket = ticket.number,
                            .base_version = versions[s]},
                           contribution);
  }
  bool is_made = true;
  for (const auto& server : servers) {
    is_made = server->finish_push().outcome != PushAnswer::Outcome::refused && is_made;
  }
  return is_made;
}

std::optional<Tensors> ServerWorker::run(ServerStep& step, const ServerLinks& servers,
                                         std::span<const PerReplica> arguments,
                                         const WorkTicket& ticket, const op::RandomRun& random,
                                         const std::function<void(int worker)>& before_step) {
  step_ = &step;
  const PerReplicas part = part_of(arguments, ticket.share);
  if (placed_ != &step) take_places(step, servers);
  const std::vector<int64_t> versions = pull(servers, ticket.step());
  if (versions.empty()) return std::nullopt;
  if (before_step) before_step(index_);
  auto results = std::make_shared<Tensors>();
  {
    const graph::Results ran = body_.run(strategy_, step.function(), part, &random);
    for (size_t i = 0; i < ran.count(); ++i) results->push_back(ran.at(0, i));
  }
  if (!push(step, servers, ticket, results, versions)) return std::nullopt;
  return Tensors(results->begin(), results->begin() + static_cast<ptrdiff_t>(step.results()));
}

}  // namespace tandem::distribute
