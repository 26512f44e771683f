#include "execution/hosted_exchange.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "device/transfer.h"

namespace tandem::graph {
namespace {

bool is(const Node& node, const char* op) { return node.op().name == op; }

int64_t number_of(const Node& join) { return join.signature.attrs.get<int64_t>("number"); }

}  // namespace

size_t HostedExchanges::bytes_of(ValueId value) const {
  return program_.graph().at(value).type.bytes(ranks_[0].current->plan->rows);
}

/// Takes so many bytes from `offset` on to the same place in `to`.
void HostedExchanges::read(const BoundReplica& rank, ValueId value, size_t offset, Bytes& to,
                           size_t bytes) const {
  if (to.size() < offset + bytes) to.resize(offset + bytes);
  char* at = to.data() + offset;
  devices::read_in_chunks(*rank.device, static_cast<const char*>(rank.address_of(value)) + offset,
                          bytes, [&](const char* chunk, size_t size) {
                            std::memcpy(at, chunk, size);
                            at += size;
                          });
}

void HostedExchanges::write(const BoundReplica& rank, ValueId value, const Bytes& from) const {
  const char* at = from.data();
  devices::write_in_chunks(*rank.device, rank.address_of(value), bytes_of(value),
                           [&](char* chunk, size_t size) {
                             std::memcpy(chunk, at, size);
                             at += size;
                           });
}

/// Runs the exchange on the host with these addresses, each replica's operands in order.
void HostedExchanges::launch(size_t instruction, std::vector<std::vector<void*>>& addresses) const {
  std::vector<int> operands(addresses[0].size());
  std::iota(operands.begin(), operands.end(), 0);
  std::vector<void* const*> peers;
  for (const std::vector<void*>& own : addresses) peers.push_back(own.data());
  op::Launch launch = launch_of(program_, ranks_[0], instruction);
  launch.addresses = addresses[0].data();
  launch.operands = operands.data();
  launch.peers = peers.data();
  ranks_[0].current->plan->executables[instruction]->run(launch);
}

bool HostedExchanges::reads_devices(size_t instruction) const {
  return !is(node_of(instruction), "exchange_join_finish");
}

void HostedExchanges::run(size_t instruction) {
  const Node& node = node_of(instruction);
  if (is(node, "exchange_join_start")) return start_join(instruction);
  if (is(node, "exchange_join_finish")) return finish_join(instruction);
  if (is(node, "exchange_gather")) return gather(instruction);
  if (is(node, "exchange_sum_to_part")) return run_for_each(instruction);
  run_for_first(instruction);
}

/// The first replica's values, and what becomes of them: in the same place if it is as large.
void HostedExchanges::run_for_first(size_t instruction) {
  const Node& node = node_of(instruction);
  const size_t inputs = node.inputs.size();
  Operands& all = operands_[instruction];
  all.resize(1);
  std::vector<Bytes>& own = all[0];
  own.resize(inputs + node.outputs.size());
  std::vector<std::vector<void*>> addresses(1);
  for (size_t k = 0; k < inputs; ++k) {
    own[k].resize(bytes_of(node.inputs[k]));
    read(ranks_[0], node.inputs[k], 0, own[k], own[k].size());
    addresses[0].push_back(own[k].data());
  }
  const auto place_of = [&](size_t k) -> Bytes& {
    const size_t bytes = bytes_of(node.outputs[k]);
    if (k < inputs && own[k].size() == bytes) return own[k];
    own[inputs + k].resize(bytes);
    return own[inputs + k];
  };
  for (size_t k = 0; k < node.outputs.size(); ++k) addresses[0].push_back(place_of(k).data());
  launch(instruction, addresses);
  for (size_t k = 0; k < node.outputs.size(); ++k) write(ranks_[0], node.outputs[k], place_of(k));
}

/// The first replica has the sums of this process, and each gets its parts.
void HostedExchanges::run_for_each(size_t instruction) {
  const Node& node = node_of(instruction);
  Operands& all = operands_[instruction];
  all.resize(replicas_);
  std::vector<std::vector<void*>> addresses(replicas_);
  for (size_t r = 0; r < replicas_; ++r) {
    all[r].resize(node.inputs.size() + node.outputs.size());
    for (size_t k = 0; k < all[r].size(); ++k) {
      const bool is_input = k < node.inputs.size();
      if (is_input && r == 0)
        read(ranks_[0], node.inputs[k], 0, all[r][k], bytes_of(node.inputs[k]));
      if (!is_input) all[r][k].resize(bytes_of(node.outputs[k - node.inputs.size()]));
      addresses[r].push_back(all[r][k].data());
    }
  }
  launch(instruction, addresses);
  for (size_t r = 0; r < replicas_; ++r) {
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      write(ranks_[r], node.outputs[k], all[r][node.inputs.size() + k]);
    }
  }
}

/// Each replica's part, and memory of the host's for all parts.
void HostedExchanges::start_join(size_t instruction) {
  const Node& node = node_of(instruction);
  const int64_t number = number_of(node);
  if (!joining_.contains(number) && !free_.empty()) {
    joining_[number] = std::move(free_.back());
    free_.pop_back();
  }
  Bytes& whole = joining_[number];
  const size_t part = bytes_of(node.inputs[0]);
  const auto parts = static_cast<size_t>(node.signature.attrs.get<int64_t>("parts"));
  if (whole.size() < part * parts) whole.resize(part * parts);
  Operands& all = operands_[instruction];
  all.resize(replicas_);
  std::vector<std::vector<void*>> addresses(replicas_);
  for (size_t r = 0; r < replicas_; ++r) {
    all[r].resize(1);
    read(ranks_[r], node.inputs[0], 0, all[r][0], part);
    addresses[r] = {all[r][0].data(), whole.data()};
  }
  launch(instruction, addresses);
}

void HostedExchanges::finish_join(size_t instruction) {
  const Node& node = node_of(instruction);
  Bytes& whole = joining_.at(number_of(node));
  std::vector<std::vector<void*>> addresses(replicas_, {whole.data(), whole.data()});
  launch(instruction, addresses);
  for (size_t r = 0; r < replicas_; ++r) write(ranks_[r], node.outputs[0], whole);
  free_.push_back(std::move(whole));
  joining_.erase(number_of(node));
}

/// What each replica has updated of variables, its part of each, and the whole for all. Replicas in
/// one memory space share it.
void HostedExchanges::gather(size_t instruction) {
  const Node& node = node_of(instruction);
  const auto all = static_cast<size_t>(program_.runners().all);
  Operands& operands = operands_[instruction];
  operands.resize(1);
  std::vector<Bytes>& wholes = operands[0];
  wholes.resize(node.ranges.size());
  std::vector<std::vector<void*>> addresses(1);
  for (size_t k = 0; k < node.ranges.size(); ++k) {
    const size_t bytes = bytes_of(node.ranges[k]);
    const size_t part = bytes / all;
    wholes[k].resize(bytes);
    for (size_t r = 0; r < replicas_; ++r) {
      const size_t own = static_cast<size_t>(program_.runners().first) + r;
      read(ranks_[r], node.ranges[k], own * part, wholes[k], part);
    }
    addresses[0].push_back(wholes[k].data());
  }
  launch(instruction, addresses);
  for (size_t k = 0; k < node.ranges.size(); ++k) {
    std::set<const devices::MemorySpace*> written;
    for (size_t r = 0; r < replicas_; ++r) {
      const bool is_new = written.insert(&ranks_[r].device->space()).second;
      if (is_new) write(ranks_[r], node.ranges[k], wholes[k]);
    }
  }
}

}  // namespace tandem::graph
