#include "graph/pipeline/pass_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/pipeline/measured_seconds.h"
#include "graph/uses.h"
#include "tandem/error.h"
#include "tensor/store.h"

namespace tandem::graph {
namespace {

using devices::DevicePtr;

/// The path in a variable's name, "'encoder/dense_1/kernel'", or in that of a slot.
std::string path_in(const std::string& name) {
  const size_t quote = name.find('\'');
  return quote == std::string::npos ? name : name.substr(quote + 1);
}

size_t operand_bytes(const Node& node, int64_t rows) {
  size_t bytes = 0;
  for (const op::TensorTypes* types : {&node.signature.inputs, &node.signature.outputs}) {
    for (const op::TensorType& type : *types) bytes += type.bytes(rows);
  }
  return bytes;
}

}  // namespace

PassKeys::PassKeys(const Graph& graph, const CallTimes& times, const PipelineStages& stages,
                   const StageSearch& search)
    : graph_(graph),
      times_(times),
      stages_(stages),
      chunks_(stages.chunks_in_all()),
      keys_(graph.nodes.size(), -1),
      is_backward_(graph.nodes.size(), false) {
  find_backward();
  const std::vector<int> own = has_scopes() ? by_scopes() : by_search(search);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (is_keyed(i)) keys_[i] = std::max(is_backward_[i] ? backward_key(i) : own[i], floor_of(i));
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    if (is_keyed(i) && keys_[i] < 0) keys_[i] = first_use_of(i);
  }
}

/// What a tape computes is beside the call that it is the gradient of.
void PassKeys::find_backward() {
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    is_backward_[i] = node.near != kNoValue || std::ranges::any_of(node.inputs, [&](ValueId input) {
                        const int producer = producer_of(input);
                        return producer >= 0 && is_backward_[static_cast<size_t>(producer)];
                      });
  }
}

/// The latest of what it needs; negative where that is there from the start.
int PassKeys::floor_of(size_t node) const {
  int floor = -1;
  for (ValueId input : graph_.nodes[node].inputs) {
    if (const int p = producer_of(input); p >= 0) {
      floor = std::max(floor, keys_[static_cast<size_t>(p)]);
    }
  }
  return floor;
}

int PassKeys::backward_key(size_t node) const {
  const ValueId near = graph_.nodes[node].near;
  const int producer = near == kNoValue ? -1 : producer_of(near);
  const int key = producer < 0 ? -1 : keys_[static_cast<size_t>(producer)];
  return key < 0 ? -1 : std::max(key, count() - 1 - key);
}

int PassKeys::first_use_of(size_t node) const {
  int first = count() - 1;
  for (size_t i = node + 1; i < graph_.nodes.size(); ++i) {
    if (keys_[i] < 0 || keys_[i] >= first) continue;
    const bool uses = std::ranges::any_of(graph_.nodes[i].inputs, [&](ValueId input) {
      return producer_of(input) == static_cast<int>(node);
    });
    if (uses) first = keys_[i];
  }
  return first;
}

bool PassKeys::is_placed(size_t node) const {
  if (is_backward_[node] || !is_keyed(node)) return false;
  return asked_device(node) != nullptr || is_listed(node) || is_kept_by_some(node);
}

/// The variables that a call reads, itself or by way of calls that are made anywhere.
std::vector<const StoreRange*> PassKeys::variables_of(size_t node) const {
  std::vector<const StoreRange*> variables;
  for (size_t each : times_.with_needed({node})) {
    for (ValueId range : graph_.nodes[each].ranges) variables.push_back(&graph_.at(range).range);
  }
  return variables;
}

/// True when a chunk's list has a layer whose variable the call reads.
bool PassKeys::is_listed(size_t node) const {
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    if (is_listed(node, chunk)) return true;
  }
  return false;
}
bool PassKeys::is_listed(size_t node, int chunk) const {
  if (stages_.layers.empty()) return false;
  return std::ranges::any_of(variables_of(node), [&](const StoreRange* variable) {
    return stages_.lists(chunk, path_in(variable->name()));
  });
}
/// True when not all processes keep the variables that the call reads.
bool PassKeys::is_kept_by_some(size_t node) const {
  return stages_.homes && keepers_of(node) != stages_.all_processes;
}
/// The processes that keep all of them, as far as somebody has said so.
ProcessList PassKeys::keepers_of(size_t node) const {
  ProcessList keepers = stages_.all_processes;
  for (const StoreRange* variable : variables_of(node)) {
    if (const auto known = stages_.homes->find(*variable)) keepers = common(keepers, *known);
  }
  return keepers;
}

/// The device that a scope asks for, or where a variable is that the call reads and not all
/// stages have; null where neither is. Where there are several processes, which must come to the
/// same stages, it matters who keeps a variable, and not on which of its devices.
DevicePtr PassKeys::asked_device(size_t node) const {
  if (graph_.nodes[node].device || stages_.homes) return graph_.nodes[node].device;
  for (ValueId input : graph_.nodes[node].inputs) {
    const int producer = producer_of(input);
    if (producer < 0) continue;
    for (ValueId range : graph_.nodes[static_cast<size_t>(producer)].ranges) {
      const StoreBlock& block = *graph_.at(range).range.block;
      const bool is_everywhere = std::ranges::all_of(
          stages_.devices, [&](const DevicePtr& device) { return block.is_in(device->space()); });
      if (!is_everywhere) return block.components()[0]->device();
    }
  }
  return nullptr;
}
bool PassKeys::has_scopes() const {
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (is_placed(i)) return true;
  }
  return false;
}

/// The chunk that the scope of each forward call names: on its device, not before what it needs.
std::vector<int> PassKeys::by_scopes() const {
  std::vector<int> chunks(graph_.nodes.size(), -1);
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (is_backward_[i] || !is_keyed(i)) continue;
    for (ValueId input : graph_.nodes[i].inputs) {
      if (const int p = producer_of(input); p >= 0) {
        chunks[i] = std::max(chunks[i], chunks[static_cast<size_t>(p)]);
      }
    }
    if (is_placed(i)) chunks[i] = next_chunk_on(i, std::max(chunks[i], 0));
  }
  return chunks;
}

/// The first chunk from `chunk` on whose list, or whose processes' memory, has what the call
/// reads.
int PassKeys::next_chunk_with(size_t node, int chunk) const {
  const bool is_listed = this->is_listed(node);
  const ProcessList keepers = is_listed ? ProcessList{} : keepers_of(node);
  const auto fits = [&](int candidate) {
    if (is_listed) return this->is_listed(node, candidate);
    for (int p = 0; p < stages_.pipelines(); ++p) {
      if (!includes(keepers, stages_.process_of(candidate, p))) return false;
    }
    return true;
  };
  for (int candidate = chunk; candidate < chunks_; ++candidate) {
    if (fits(candidate)) return candidate;
  }
  if (!is_listed) return chunk;  // Its processes will keep the variables, too.
  throw InvalidArgument(fmt::format(
      "{} of {}: the layers of a pipeline go through its stages in their order, and an input of "
      "this one is of chunk {}",
      graph_.nodes[node].op().name, variables_of(node)[0]->name(), chunk));
}

int PassKeys::next_chunk_on(size_t node, int chunk) const {
  const DevicePtr asked = asked_device(node);
  if (!asked) return next_chunk_with(node, chunk);
  if (stages_.homes) {
    throw InvalidArgument(fmt::format(
        "{} on {}: a scope in a pipeline of several processes, whose devices have the same names "
        "in each; PipelineOptions::layers says which layers are on which stage",
        graph_.nodes[node].op().name, asked->name()));
  }
  const int stage = stages_.stage_of(asked);
  const int count = static_cast<int>(stages_.devices.size());
  const int earliest = chunk;
  while (chunk < chunks_ && chunk % count != stage) ++chunk;
  if (stage >= 0 && chunk < chunks_) return chunk;
  // A variable of an earlier stage, which no scope has sent the call to, is copied.
  if (!graph_.nodes[node].device && stage >= 0) return earliest;
  std::string names;
  for (const DevicePtr& device : stages_.devices) names += " " + device->name();
  throw InvalidArgument(
      fmt::format("{} on {}: the layers of a pipeline go through its stages in their order,{}{}",
                  graph_.nodes[node].op().name, asked->name(), names,
                  stages_.chunks > 1 ? fmt::format(", {} times", stages_.chunks) : ""));
}

/// The forward call that each gradient's call is of, -1 where none is known.
std::vector<int> PassKeys::forward_calls_of_gradients() const {
  std::vector<int> calls(graph_.nodes.size(), -1);
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!is_backward_[i]) continue;
    const Node& node = graph_.nodes[i];
    if (node.near != kNoValue) calls[i] = producer_of(node.near);
    for (ValueId input : node.inputs) {
      if (calls[i] >= 0) break;
      const int producer = producer_of(input);
      if (producer >= 0) calls[i] = calls[static_cast<size_t>(producer)];
    }
  }
  return calls;
}

/// Deals the forward calls to chunks of consecutive ones.
std::vector<int> PassKeys::by_search(const StageSearch& search) {
  std::vector<int> chunks(graph_.nodes.size(), -1);
  NodeList forward;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (is_keyed(i) && !is_backward_[i]) forward.push_back(i);
  }
  if (chunks_ == 1) {
    for (size_t node : forward) chunks[node] = 0;
    return chunks;
  }
  is_searched_ = true;
  const std::vector<CallLoad> loads = loads_of(forward, search);
  const std::vector<ChunkPlace> places = this->places(search);
  const std::vector<size_t> ends = find_chunks(loads, crossing_times(forward, search.rows), places);
  size_t begin = 0;
  for (size_t c = 0; c < ends.size(); ++c) {
    double seconds = 0;
    for (size_t f = begin; f < ends[c]; ++f) {
      chunks[forward[f]] = static_cast<int>(c);
      seconds += loads[f].seconds / places[c].threads;
    }
    text_ += fmt::format("{}chunk {} takes {:.3g} ms", c == 0 ? ": " : ", ", c, 1e3 * seconds);
    begin = ends[c];
  }
  text_ += fmt::format(" by that, for {} rows\n", search.rows);
  return chunks;
}

std::vector<CallLoad> PassKeys::loads_of(const NodeList& forward, const StageSearch& search) {
  std::optional<MeasuredSeconds> measured;
  if (search.measures) measured.emplace(stages_.devices[0], search.rows);
  const auto seconds_of = [&](const Node& node) {
    return measured ? measured->of(node) : seconds_by_cost(node, search.rows);
  };
  const Uses uses(graph_);
  std::map<int, size_t> place_of;
  std::vector<CallLoad> loads(forward.size());
  std::set<std::pair<const StoreBlock*, int64_t>> read;  // Variables, each counted once.
  for (size_t f = 0; f < forward.size(); ++f) {
    const Node& node = graph_.nodes[forward[f]];
    place_of[static_cast<int>(forward[f])] = f;
    loads[f].seconds = seconds_of(node);
    loads[f].passing_bytes = operand_bytes(node, search.rows);
    for (ValueId output : node.outputs) {
      const bool is_kept = std::ranges::any_of(uses.of(output), [&](const Use& use) {
        return !use.is_result() && is_backward_[use.call];
      });
      if (is_kept) loads[f].kept_bytes += graph_.at(output).type.bytes(search.rows);
    }
    for (const StoreRange* variable : variables_of(forward[f])) {
      if (!read.insert({variable->block.get(), variable->offset}).second) continue;
      loads[f].sum_bytes +=
          static_cast<size_t>(variable->count) * size_of(variable->block->dtype());
    }
  }
  const std::vector<int> calls = forward_calls_of_gradients();
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!is_backward_[i] || !is_keyed(i)) continue;
    const auto place = place_of.find(calls[i]);
    if (place == place_of.end()) continue;
    CallLoad& load = loads[place->second];
    load.seconds += seconds_of(graph_.nodes[i]);
    load.passing_bytes = std::max(load.passing_bytes, operand_bytes(graph_.nodes[i], search.rows));
  }
  text_ = fmt::format("chunks are cut by what calls cost, {} kinds of which were measured",
                      measured ? measured->measured() : 0);
  return loads;
}

/// The chunks of a stage share its room.
std::vector<ChunkPlace> PassKeys::places(const StageSearch& search) const {
  std::vector<ChunkPlace> places(static_cast<size_t>(chunks_));
  for (size_t c = 0; c < places.size(); ++c) {
    const size_t stage = c % stages_.devices.size();
    places[c].threads = std::max(stages_.devices[stage]->threads(), 1);
    if (stage < search.in_flight.size()) places[c].in_flight = std::max(search.in_flight[stage], 1);
    if (stage < search.room.size() && search.room[stage] > 0) {
      places[c].room = search.room[stage] / static_cast<size_t>(stages_.chunks);
    }
  }
  return places;
}

/// What it takes to hand on, at each place between two calls, the values that are needed behind.
std::vector<double> PassKeys::crossing_times(const NodeList& forward, int64_t rows) const {
  std::vector<double> times(forward.size() + 1, 0);
  std::map<size_t, size_t> place_of;
  for (size_t f = 0; f < forward.size(); ++f) place_of[forward[f]] = f;
  std::map<ValueId, std::pair<size_t, size_t>> lives;  // From its call to its last use.
  for (size_t f = 0; f < forward.size(); ++f) {
    for (ValueId input : graph_.nodes[forward[f]].inputs) {
      const int p = producer_of(input);
      if (p < 0 || !place_of.contains(static_cast<size_t>(p))) continue;
      lives[graph_.storage_of(input)] = {place_of.at(static_cast<size_t>(p)), f};
    }
  }
  constexpr double kBytesPerSecond = 5e9;
  for (const auto& [value, life] : lives) {
    const double seconds = static_cast<double>(graph_.at(value).type.bytes(rows)) / kBytesPerSecond;
    for (size_t at = life.first + 1; at <= life.second; ++at) times[at] += seconds;
  }
  return times;
}

}  // namespace tandem::graph
