#include "checkpoint/saving.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <unordered_map>

#include "checkpoint/bundle_writer.h"
#include "checkpoint/keepers.h"
#include "checkpoint/process_files.h"
#include "checkpoint/variable_memory.h"
#include "tensor/store.h"

namespace tandem::checkpoint {
namespace {

/// Who writes each variable: the process that has least to write so far, the largest first.
std::vector<int> dealt(const std::vector<Variable>& variables, int processes) {
  const auto bytes = [&](size_t i) {
    return variables[i].shape().total_extent() *
           static_cast<int64_t>(size_of(variables[i].dtype()));
  };
  std::vector<size_t> order(variables.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), bytes);
  std::vector<int64_t> loads(static_cast<size_t>(processes), 0);
  std::vector<int> writers(variables.size());
  for (size_t i : order) {
    const auto least = std::ranges::min_element(loads);
    writers[i] = static_cast<int>(least - loads.begin());
    *least += bytes(i);
  }
  return writers;
}

/// Adds one object's value to the writer, and keeps what the writer reads until it is written.
class ValueSaver {
 public:
  ValueSaver(BundleWriter& writer, const Keepers* keepers, const std::vector<int>& variable_writers)
      : writer_(writer), keepers_(keepers), variable_writers_(variable_writers) {}

  void save(const std::string& key, const Variable& variable) {
    const int by = variable_writers_[variables_++];
    ByteRun run = run_of(variable, writer_.writes(by));
    if (keepers_ != nullptr) {
      return writer_.add(key, variable.dtype(), variable.shape(), std::move(run),
                         keepers_->elements_of(variable.body()->range));
    }
    writer_.add(key, variable.dtype(), variable.shape(), std::move(run), by);
  }
  void save(const std::string& key, const HostState<std::string>& state) {
    writer_.add_string(key, state.save());
  }
  void save(const std::string& key, const HostState<int64_t>& state) {
    add(key, DType::int64, integers_.emplace_back(state.save()));
  }
  void save(const std::string& key, const HostState<float>& state) {
    add(key, DType::float32, floats_.emplace_back(state.save()));
  }
  void save(const std::string& key, const HostState<double>& state) {
    const double& value = doubles_.emplace_back(state.save());
    add(key, DType::float32, floats_.emplace_back(static_cast<float>(value)));
    add(full_value_key(key), DType::float64, value);
  }
  void save(const std::string&, std::monostate) {}

 private:
  ByteRun run_of(const Variable& variable, bool is_own) {
    if (!has_all_parts(*variable.body())) {
      std::vector<char> whole = gathered_value(*processes(), variable);
      if (!is_own) return ByteRun({});
      return ByteRun(std::span<const char>(gathered_.emplace_back(std::move(whole))));
    }
    return is_own ? images_.emplace_back(variable).run() : ByteRun({});
  }

  template <class T>
  void add(const std::string& key, DType dtype, const T& value) {
    writer_.add(key, dtype, {},
                std::span<const char>(reinterpret_cast<const char*>(&value), sizeof value));
  }

  BundleWriter& writer_;
  const Keepers* const keepers_;
  const std::vector<int>& variable_writers_;
  size_t variables_ = 0;  // So many were saved.
  std::deque<VariableImage> images_;
  std::deque<std::vector<char>> gathered_;
  std::deque<int64_t> integers_;
  std::deque<float> floats_;
  std::deque<double> doubles_;
};

/// A step on the way from a parent, by number, to a child.
struct Edge {
  int parent = -1;
  TrackedChild child;
  std::string path;
  bool optional = false;
};

Edge taken_from(std::deque<Edge>& queue) {
  Edge edge = std::move(queue.front());
  queue.pop_front();
  return edge;
}

std::vector<Variable> variables_of(const ReachedObjects& reached) {
  std::vector<Variable> variables;
  for (const ReachedObject& object : reached.objects) {
    if (const auto* variable = std::get_if<Variable>(&object.body->value)) {
      variables.push_back(*variable);
    }
  }
  return variables;
}

/// True where the processes meet for values while they are added.
bool are_cut(const std::vector<Variable>& variables) {
  return std::ranges::any_of(
      variables, [](const Variable& variable) { return !has_all_parts(*variable.body()); });
}

std::string full_name_of(const ReachedObject& object) {
  const auto* variable = std::get_if<Variable>(&object.body->value);
  return variable != nullptr ? variable->name() : object.path;
}

}  // namespace

ReachedObjects reached_from(const std::shared_ptr<TrackableBody>& object, Order order,
                            const std::string& path) {
  ReachedObjects reached;
  std::unordered_map<const void*, int> numbers;
  std::deque<Edge> open = {{-1, {"", object}, path, false}};
  std::deque<Edge> fallbacks;
  while (!open.empty() || !fallbacks.empty()) {
    const Edge edge = taken_from(open.empty() ? fallbacks : open);
    const auto [at, is_new] = numbers.try_emplace(identity_of(edge.child.body).get(),
                                                  static_cast<int>(reached.objects.size()));
    const int number = at->second;
    if (edge.parent >= 0) {
      reached.graph.nodes[static_cast<size_t>(edge.parent)].children.push_back(
          {number, edge.child.name});
    }
    if (!is_new) continue;
    reached.objects.push_back({edge.child.body, edge.path, edge.optional});
    reached.graph.nodes.emplace_back();
    for (const TrackedChild& child : edge.child.body->children) {
      if (child.options.restore_only || (child.of_root_only && !edge.path.empty())) continue;
      const bool last = order == Order::by_own_names_first && child.is_fallback();
      (last ? fallbacks : open)
          .push_back({number, child, joined_path(edge.path, child.name),
                      edge.optional || child.options.optional});
    }
  }
  return reached;
}

const char* attribute_of(const TrackedValue& value) {
  return std::holds_alternative<HostState<std::string>>(value) ? kBytesValue : kVariableValue;
}

bool save_objects(const Trackable& root, const std::filesystem::path& prefix) {
  ReachedObjects reached = reached_from(root.trackable_body(), Order::nearest_first);
  const std::vector<Variable> variables = variables_of(reached);
  std::shared_ptr<op::Group> group = processes();
  if (group && are_in_parts(variables)) {
    if (!share_folder(*group, prefix.parent_path())) group.reset();
  } else if (!is_writer()) {
    return false;
  } else {
    group.reset();
  }
  const std::vector<int> writers = dealt(variables, group ? group->size() : 1);
  const GatheredParts gathered(variables, writers);
  if (!group && !is_writer() && !are_cut(variables)) return false;
  const std::shared_ptr<Keepers> keepers = settled_keepers();
  BundleWriter writer(keepers, group);
  ValueSaver saver(writer, keepers.get(), writers);
  for (size_t i = 0; i < reached.objects.size(); ++i) {
    const ReachedObject& object = reached.objects[i];
    if (!object.body->has_value()) continue;
    const char* attribute = attribute_of(object.body->value);
    const std::string key = key_of(object.path, attribute);
    std::visit([&](const auto& value) { saver.save(key, value); }, object.body->value);
    reached.graph.nodes[i].attributes.push_back({attribute, full_name_of(object), key});
  }
  writer.add_string(kObjectGraphKey, encode(reached.graph));
  if (!group && !is_writer()) return false;
  writer.write(prefix);
  return is_writer();
}

}  // namespace tandem::checkpoint
