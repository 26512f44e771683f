#include "checkpoint/restoration.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "checkpoint/saving.h"
#include "checkpoint/variable_memory.h"
#include "core/tensor_type.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::checkpoint {
namespace {

ObjectGraph graph_of(const BundleReader& reader) {
  if (!reader.entries().contains(kObjectGraphKey)) {
    throw InvalidArgument(
        fmt::format("{}: the checkpoint was not made of objects; read its tensors by name with "
                    "train::load_checkpoint",
                    reader.prefix().string()));
  }
  const std::string bytes = reader.read_string(kObjectGraphKey);
  try {
    return decode_graph(bytes);
  } catch (const Error& error) {
    error.rethrow_within(fmt::format("{}: key '{}'", reader.prefix().string(), kObjectGraphKey));
    throw;
  }
}

/// The key of a node's value for an object, if it has one.
const std::string* key_for(const ObjectGraph::Node& node, const TrackedValue& value) {
  const auto found =
      std::ranges::find(node.attributes, attribute_of(value), &ObjectGraph::Attribute::name);
  return found == node.attributes.end() ? nullptr : &found->key;
}

/// The value of a scalar on the host.
template <class T>
T read_scalar(const BundleReader& reader, const std::string& key) {
  const BundleEntry& entry = reader.entry(key);
  if (entry.type != type_number(dtype_of<T>) || !entry.sizes.empty()) {
    throw InvalidArgument(fmt::format("{}: key '{}': {} in the checkpoint, {} here",
                                      reader.prefix().string(), key, entry.type_str(),
                                      TensorType{dtype_of<T>, {}}.str()));
  }
  T value{};
  const BundleReader::Target target{key, reinterpret_cast<char*>(&value), {}};
  reader.read({&target, 1});
  return value;
}

}  // namespace

Restoration::Restoration(const std::filesystem::path& prefix)
    : reader_(prefix),
      graph_(graph_of(reader_)),
      with_values_(nodes_with_values(graph_)),
      taken_(graph_.nodes.size()) {}

void Restoration::restore(const Trackable& root) {
  assign(matches_from({root.trackable_body(), 0}));
}

void Restoration::on_child_tracked(int parent, const TrackedChild& child) {
  for (const auto& saved : node(parent).children) {
    if (saved.name == child.name) assign(matches_from({child.body, saved.node}));
  }
}

/// Follows the names that objects and checkpoint have in common, fallbacks last.
std::vector<Restoration::Match> Restoration::matches_from(Match first) const {
  std::vector<Match> matches;
  std::deque<Match> open = {std::move(first)};
  std::deque<Match> fallbacks;
  std::set<const void*> seen;
  while (!open.empty() || !fallbacks.empty()) {
    std::deque<Match>& next = open.empty() ? fallbacks : open;
    const Match parent = next.front();
    next.pop_front();
    if (!seen.insert(identity_of(parent.body).get()).second) continue;
    matches.push_back(parent);
    const auto& saved = node(parent.node).children;
    for (const TrackedChild& child : parent.body->children) {
      const auto found = std::ranges::find(saved, child.name, &ObjectGraph::Child::name);
      if (found == saved.end()) continue;
      (child.is_fallback() ? fallbacks : open).push_back({child.body, found->node});
    }
  }
  return matches;
}

void Restoration::assign(const std::vector<Match>& matches) {
  std::vector<Assignment> assignments;
  for (const auto& [body, number] : matches) {
    if (!body->has_value() || has_restored(body)) continue;
    if (const std::string* key = key_for(node(number), body->value)) {
      assignments.push_back({body, *key});
    }
  }
  const auto states = read_states(assignments);
  read_variables(assignments);
  for (const auto& restore : states) restore();
  for (const Match& match : matches) {
    const auto& [body, number] = match;
    if (!body->has_value()) {
      // Nobody holds the files open who has no use for them.
      body->waiting = has_more_children(match) ? shared_from_this() : nullptr;
      body->waiting_node = number;
    } else if (key_for(node(number), body->value) != nullptr) {
      taken_[static_cast<size_t>(number)] = true;
      restored_.insert(identity_of(body));
    }
  }
}

/// Whether the checkpoint has values for children of it that it does not have itself.
bool Restoration::has_more_children(const Match& match) const {
  return std::ranges::any_of(node(match.node).children, [&](const ObjectGraph::Child& saved) {
    return with_values_[static_cast<size_t>(saved.node)] && saved.node != match.node &&
           std::ranges::find(match.body->children, saved.name, &TrackedChild::name) ==
               match.body->children.end();
  });
}

void Restoration::check(const Variable& variable, const std::string& key) const {
  const BundleEntry& entry = reader_.entry(key);
  const auto wanted = variable.shape().extents();
  if (entry.type == type_number(variable.dtype()) && std::ranges::equal(entry.sizes, wanted)) {
    return;
  }
  throw InvalidArgument(fmt::format("{}: key '{}': {} in the checkpoint, variable '{}' is {}",
                                    reader_.prefix().string(), key, entry.type_str(),
                                    variable.name(), type_of(variable).str()));
}

void Restoration::read_variables(const std::vector<Assignment>& assignments) const {
  std::vector<BundleReader::Target> targets;
  std::vector<const Variable*> variables;
  for (const auto& [body, key] : assignments) {
    const auto* variable = std::get_if<Variable>(&body->value);
    if (variable == nullptr) continue;
    check(*variable, key);
    targets.push_back({key, nullptr, {}});
    variables.push_back(variable);
  }
  reader_.read(targets);
  std::deque<VariableTarget> memory;
  for (size_t i = 0; i < targets.size(); ++i) {
    VariableTarget& target = memory.emplace_back(*variables[i]);
    targets[i].to = target.data();
    targets[i].put = [&target](size_t offset, std::span<char> piece) { target.put(offset, piece); };
  }
  reader_.read(targets);
  for (VariableTarget& target : memory) target.finish();
}

/// What to call once nothing else can fail.
std::vector<std::function<void()>> Restoration::read_states(
    const std::vector<Assignment>& assignments) const {
  std::vector<std::function<void()>> calls;
  const auto add = [&](const auto& state, auto value) {
    calls.emplace_back([restore = state.restore, value = std::move(value)] { restore(value); });
  };
  for (const auto& [body, key] : assignments) {
    if (const auto* bytes = std::get_if<HostState<std::string>>(&body->value)) {
      add(*bytes, reader_.read_string(key));
    } else if (const auto* integer = std::get_if<HostState<int64_t>>(&body->value)) {
      add(*integer, read_scalar<int64_t>(reader_, key));
    } else if (const auto* number = std::get_if<HostState<float>>(&body->value)) {
      add(*number, read_scalar<float>(reader_, key));
    } else if (const auto* full = std::get_if<HostState<double>>(&body->value)) {
      calls.push_back(restoring(*full, key));
    }
  }
  return calls;
}

std::function<void()> Restoration::restoring(const HostState<double>& state,
                                             const std::string& key) const {
  const bool is_full = reader_.entry(key).type == type_number(DType::float64);
  const std::string full_key = is_full ? key : full_value_key(key);
  if (reader_.entries().contains(full_key)) {
    return [state, full = read_scalar<double>(reader_, full_key)] { state.restore(full); };
  }
  return [state, rounded = read_scalar<float>(reader_, key)] {
    if (static_cast<float>(state.save()) != rounded) state.restore(rounded);
  };
}

bool Restoration::names(const std::string& child) const {
  const auto& children = graph_.nodes[0].children;
  return std::ranges::find(children, child, &ObjectGraph::Child::name) != children.end();
}

bool Restoration::is_save_counter(size_t node) const {
  return std::ranges::any_of(graph_.nodes[0].children, [&](const ObjectGraph::Child& child) {
    return child.name == kSaveCounter && static_cast<size_t>(child.node) == node;
  });
}

std::vector<std::string> Restoration::untaken() const {
  const std::vector<std::string> names = paths(graph_);
  std::vector<std::string> left;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (taken_[i] || graph_.nodes[i].attributes.empty() || is_save_counter(i)) continue;
    left.push_back(names[i].empty() ? graph_.nodes[i].attributes[0].key : names[i]);
  }
  return left;
}

bool Restoration::has_taken_values() const {
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i] && !is_save_counter(i)) return true;
  }
  return false;
}

Restoration::~Restoration() {
  if (!warns_at_end_ || has_taken_values()) return;
  try {
    logging::write(logging::Level::warning,
                   fmt::format("restore: {}: no object ever took one of its values",
                               reader_.prefix().string()));
  } catch (const std::exception&) {
    // A sink that throws has nobody here to tell.
  }
}

}  // namespace tandem::checkpoint
