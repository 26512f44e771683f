#include "distribute/worker_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "op/update.h"
#include "runtime/random_calls.h"
#include "tandem/error.h"
#include "tandem/providers.h"
#include "tensor/late_values.h"
#include "tensor/shared_stores.h"

namespace tandem::distribute {
namespace {

bool is_in_host_memory(const StoreBlock& block) {
  return block.components().size() == 1 && block.components()[0]->device()->works_on_threads();
}

/// The value of a GPU's variable on the host, or memory for it where it is not there.
Tensor value_on_host(const StoreRange& range, bool is_there) {
  const Shape elements{range.count};
  if (!is_there) return Tensor(new_body(devices::host_device(), range.block->dtype(), elements));
  const Tensor late = value_without_memory(*range.block);
  return on_device(late.defined() ? late : read_range(range, elements), devices::host_device());
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::string fingerprint_of(const graph::ConcreteFunction& concrete, int64_t global_rows) {
  std::string text = fmt::format("version {}\n", TANDEM_VERSION);
  text += fmt::format("function({})\n", listed(concrete.arguments));
  text += fmt::format("global batch of {} rows\n", global_rows);
  text += fmt::format("provider table {:016x}\n", providers::table_hash());
  if (concrete.pipeline) return text + concrete.pipeline->fingerprint();
  const graph::Program& program = *concrete.segments[0].program;
  const graph::Graph& graph = program.graph();
  text += fmt::format("{} replicas\n", program.runners().all);
  for (const graph::Value& value : graph.values) {
    if (value.source != graph::Value::Source::range) continue;
    text += fmt::format("variable {} {}\n", value.range.name(), value.type.str());
  }
  for (const graph::Node& node : graph.nodes) {
    if (graph::is_group_exchange(node)) {
      text += fmt::format("{}({})\n", node.op().name, listed(node.signature.inputs));
    }
    if (node.op().is_update) {
      text += fmt::format("{} {}\n", node.op().name, node.signature.attrs.str());
    }
  }
  return text;
}

std::string first_difference(const std::vector<std::string>& texts, const op::Group& group) {
  const std::vector<std::string> first = lines_of(texts[0]);
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    const std::vector<std::string> own = lines_of(texts[rank]);
    for (size_t i = 0; i < std::max(first.size(), own.size()); ++i) {
      const std::string there = i < first.size() ? first[i] : "nothing more";
      const std::string here = i < own.size() ? own[i] : "nothing more";
      if (there == here) continue;
      return fmt::format("{} has '{}' where {} has '{}'", group.describe(static_cast<int>(rank)),
                         here, group.describe(0), there);
    }
  }
  return {};
}

void WorkerGroup::enter(const graph::ConcreteFunctionPtr& concrete, int64_t global_rows) {
  if (std::ranges::find(entered_, concrete) != entered_.end()) return;
  try {
    compare(*concrete, global_rows);
    if (concrete->pipeline) {
      take_kept_values(concrete->pipeline->kept());
    } else {
      take_first_values(concrete->segments[0].program->graph());
      note_parts(concrete->segments[0].program->graph());
    }
    take_random_state();
  } catch (const Unavailable& gone) {
    if (!concrete->pipeline) throw;
    throw Unavailable(fmt::format("{}; {}", gone.what(), concrete->pipeline->explain_processes()));
  }
  entered_.push_back(concrete);
}

void WorkerGroup::compare(const graph::ConcreteFunction& concrete, int64_t global_rows) const {
  const std::string difference = first_difference(
      group_->gather_texts("fingerprint", fingerprint_of(concrete, global_rows)), *group_);
  if (difference.empty()) return;
  throw InvalidArgument(fmt::format(
      "run: the processes are about to run different programs: {}; start the same program with "
      "the same arguments everywhere",
      difference));
}

void WorkerGroup::take_first_values(const graph::Graph& graph) {
  std::vector<StoreRange> ranges;
  for (const graph::Value& value : graph.values) {
    if (value.source != graph::Value::Source::range || !value.range.is_same_for_all()) continue;
    const StoreRange& range = value.range;
    Taken& known = taken_[{range.block.get(), range.offset}];
    if (range.block->owner() == 0 || known.block.lock() == range.block) continue;
    known.block = range.block;
    ranges.push_back(range);
  }
  broadcast(ranges, 0);
}

/// For each variable, how many processes have not asked for its value so far, and would make the
/// chief's.
std::vector<int64_t> WorkerGroup::count_late(
    const std::vector<graph::KeptVariable>& variables) const {
  std::vector<int64_t> own;
  for (const graph::KeptVariable& variable : variables) {
    own.push_back(late_value_of(*variable.range.block));
  }
  const auto exchange = [&](op::ExchangeKind kind, std::vector<int64_t>& numbers) {
    const op::Piece piece{numbers.data(), static_cast<int64_t>(numbers.size()), DType::int64};
    group_->run({.kind = kind, .pieces = {&piece, 1}, .name = "first values to be made"});
  };
  std::vector<int64_t> chiefs = own;
  exchange(op::ExchangeKind::broadcast, chiefs);
  std::vector<int64_t> late;
  for (size_t i = 0; i < own.size(); ++i) late.push_back(own[i] != 0 && own[i] == chiefs[i]);
  exchange(op::ExchangeKind::sum, late);
  return late;
}

/// Each variable's value goes to the processes that keep it, from rank 0 the first time, and later,
/// where more of them keep it, from one that had it. Others let go of its memory. A value that
/// nobody has asked for is made by those who keep it.
void WorkerGroup::take_kept_values(const std::vector<graph::KeptVariable>& variables) {
  const std::vector<int64_t> late = count_late(variables);
  std::map<int, std::vector<StoreRange>> by_root;
  std::vector<const graph::KeptVariable*> begun;
  for (size_t i = 0; i < variables.size(); ++i) {
    const graph::KeptVariable& variable = variables[i];
    const StoreRange& range = variable.range;
    if (range.block->owner() == 0) continue;
    Taken& known = taken_[{range.block.get(), range.offset}];
    const bool is_new = known.block.lock() != range.block;
    if (is_new) known = {.block = range.block, .processes = {}, .alike = {}};
    if (!is_new && graph::includes(known.processes, variable.processes)) continue;
    if (is_new) begun.push_back(&variable);
    if (range.is_own_part()) {
      // All have drawn the same first value, and take their parts of it.
      if (!is_new) hand_on_part(range, known.alike, variable.alike);
    } else if (!is_new || late[i] < size()) {
      by_root[is_new ? 0 : known.processes.front()].push_back(range);
    }
    known.processes = graph::united(known.processes, variable.processes);
    known.alike = graph::united(known.alike, variable.alike);
  }
  for (const auto& [root, ranges] : by_root) broadcast(ranges, root);
  for (const graph::KeptVariable* variable : begun) {
    const bool is_kept = graph::includes(variable->processes, rank());
    is_kept ? make_late_value(*variable->range.block) : drop_late_value(*variable->range.block);
  }
  for (const graph::KeptVariable& variable : variables) {
    const auto known = taken_.find({variable.range.block.get(), variable.range.offset});
    if (known == taken_.end()) continue;
    const graph::ProcessList& processes = known->second.processes;
    const bool all_keep_it = static_cast<int>(processes.size()) == size();
    if (all_keep_it && !keeper_of(variable.range)) continue;
    note_kept_by(variable.range, processes.front(), graph::includes(processes, rank()));
  }
  release_parts_of_others();
}

/// Those of `to` that are not of `from` get their parts of a variable. All of them have the same
/// part.
void WorkerGroup::hand_on_part(const StoreRange& range, const graph::ProcessList& from,
                               const graph::ProcessList& to) const {
  constexpr uint32_t kKey = 1 << 23;  // Behind those of a pipeline's messages.
  constexpr const char* kName = "parts of a variable";
  const int root = from.front();
  StoreRange own = range;
  own.part = range.block->part_of_component(0);
  const bool is_hosted = is_in_host_memory(*range.block);
  // A GPU's value, on its way.
  const Tensor aside = is_hosted ? Tensor() : value_on_host(own, graph::includes(from, rank()));
  const op::Piece piece{is_hosted ? range.data(*range.block->devices()[0]) : aside.body()->data(),
                        range.count, range.block->dtype()};
  for (int each : to) {
    if (graph::includes(from, each)) continue;
    if (rank() == root) {
      group_->send({.peer = each, .key = kKey, .pieces = {&piece, 1}, .name = kName});
    } else if (rank() == each) {
      range.block->settle_loans();
      group_->receive({.peer = root, .key = kKey, .pieces = {&piece, 1}, .name = kName});
      if (!is_hosted) write_range(own, aside);
    }
  }
}

/// All ranks get the root's values of these variables.
void WorkerGroup::broadcast(const std::vector<StoreRange>& ranges, int root) const {
  if (ranges.empty()) return;
  std::vector<op::Piece> pieces;
  std::vector<std::pair<StoreRange, Tensor>> elsewhere;  // Variables of GPUs, on their way.
  for (const StoreRange& range : ranges) {
    range.block->wait_for_devices();
    void* data = nullptr;
    if (is_in_host_memory(*range.block)) {
      range.block->settle_loans();
      data = range.data(*range.block->devices()[0]);
    } else {
      elsewhere.emplace_back(range, value_on_host(range, rank() == root));
      data = elsewhere.back().second.body()->data();
    }
    pieces.push_back({data, range.count, range.block->dtype()});
  }
  group_->run({.kind = op::ExchangeKind::broadcast,
               .pieces = pieces,
               .root = root,
               .name = fmt::format("first values of {}", ranges[0].name())});
  for (const auto& [range, value] : elsewhere) write_range(range, value);
}

/// Each process keeps its own part of slots that the program updates in parts; they are whole again
/// only where processes gather them. No other program may update them whole.
void WorkerGroup::note_parts(const graph::Graph& graph) const {
  const std::set<graph::ValueId> in_parts = graph::variables_in_parts(graph);
  for (const graph::Node& node : graph.nodes) {
    if (!node.op().is_update) continue;
    const op::UpdateLayout layout(node.signature);
    for (size_t v = 0; v < layout.variables(); ++v) {
      for (size_t k = 0; k < layout.slots_each(); ++k) {
        const StoreRange& slot = graph.at(node.ranges[layout.slot(v, k)]).range;
        if (graph::is_update_in_parts(node, in_parts)) {
          const op::PartRange part = op::part_of_piece(slot.count, rank(), size());
          note_in_parts(slot, part.begin, part.end);
        } else if (is_in_parts(slot)) {
          throw FailedPrecondition(fmt::format(
              "run: {} is held in parts, since a function before this one updates it so; this one "
              "would update all of it. Train with one function, or make bucket_bytes larger",
              slot.name()));
        }
      }
    }
  }
  release_parts_of_others();
}

void WorkerGroup::note_run() {
  ++runs_;
  if (!is_told_by_caller_) group_->note_progress("strategy.run", runs_ - 1);
}

void WorkerGroup::take_random_state(const char* name) const {
  const runtime::RandomState own = runtime::random_state();
  const std::vector<std::string> all = group_->gather_texts(
      name, fmt::format("{} {} {} {} {}", own.calls, own.initial_calls, own.process_seed,
                        own.seed ? 1 : 0, own.seed.value_or(0)));
  runtime::RandomState chief;
  int has_seed = 0;
  uint64_t seed = 0;
  std::istringstream in(all[0]);
  if (!(in >> chief.calls >> chief.initial_calls >> chief.process_seed >> has_seed >> seed)) {
    throw DataLoss(fmt::format("{} says '{}' of its random numbers", group_->describe(0), all[0]));
  }
  if (has_seed != 0) chief.seed = seed;
  chief.shared_calls = chief.calls;
  runtime::set_random_state(chief);
}

void WorkerGroup::count_common_draws() const {
  runtime::RandomState state = runtime::random_state();
  state.shared_calls = state.calls;
  runtime::set_random_state(state);
}

std::vector<int64_t> WorkerGroup::all_of(int64_t own, const char* name) const {
  std::vector<int64_t> all(static_cast<size_t>(size()));
  all[static_cast<size_t>(rank())] = own;
  const op::Piece piece{all.data(), static_cast<int64_t>(all.size()), DType::int64};
  group_->run({.pieces = {&piece, 1}, .name = name});
  return all;
}

Tensor WorkerGroup::sum(const Tensor& own, const char* name) const {
  auto body = new_body(devices::host_device(), own.dtype(), own.shape());
  own.copy_to_host(body->data());
  const op::Piece piece{body->data(), own.shape().count(), own.dtype()};
  group_->run({.pieces = {&piece, 1}, .name = name});
  return Tensor(std::move(body));
}

Tensors WorkerGroup::gather(const Tensor& own, int axis, const char* name) const {
  const std::vector<int64_t> lengths = all_of(own.shape().extent(axis), name);
  Tensors tensors;
  for (int root = 0; root < size(); ++root) {
    const Shape shape = own.shape().with(axis, lengths[static_cast<size_t>(root)]);
    auto body = new_body(devices::host_device(), own.dtype(), shape);
    if (root == rank()) own.copy_to_host(body->data());
    const op::Piece piece{body->data(), shape.count(), own.dtype()};
    group_->run(
        {.kind = op::ExchangeKind::broadcast, .pieces = {&piece, 1}, .root = root, .name = name});
    tensors.emplace_back(std::move(body));
  }
  return tensors;
}

void WorkerGroup::abort_with_current_error() const {
  try {
    throw;
  } catch (const Error& error) {
    group_->abort(fmt::format("{}: {}", error.kind(), error.what()));
  } catch (const std::exception& error) {
    group_->abort(error.what());
  } catch (...) {
    group_->abort("an exception of an unknown kind");
  }
}

}  // namespace tandem::distribute
