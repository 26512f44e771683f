#include "checkpoint/saving.h"

#include <deque>
#include <unordered_map>

#include "checkpoint/bundle_writer.h"
#include "checkpoint/variable_memory.h"

namespace tandem::checkpoint {
namespace {

/// Adds one object's value to the writer, and keeps what the writer reads until it is written.
class ValueSaver {
 public:
  explicit ValueSaver(BundleWriter& writer) : writer_(writer) {}

  void save(const std::string& key, const Variable& variable) {
    const auto& image = images_.emplace_back(variable);
    writer_.add(key, variable.dtype(), variable.shape(), image.bytes());
  }
  void save(const std::string& key, const HostState<std::string>& state) {
    writer_.add_string(key, state.save());
  }
  void save(const std::string& key, const HostState<int64_t>& state) {
    const int64_t& value = integers_.emplace_back(state.save());
    writer_.add(key, DType::int64, {}, {reinterpret_cast<const char*>(&value), sizeof value});
  }
  void save(const std::string& key, const HostState<float>& state) {
    const float& value = floats_.emplace_back(state.save());
    writer_.add(key, DType::float32, {}, {reinterpret_cast<const char*>(&value), sizeof value});
  }
  void save(const std::string&, std::monostate) {}

 private:
  BundleWriter& writer_;
  std::deque<VariableImage> images_;
  std::deque<int64_t> integers_;
  std::deque<float> floats_;
};

std::string full_name_of(const ReachedObject& object) {
  const auto* variable = std::get_if<Variable>(&object.body->value);
  return variable != nullptr ? variable->name() : object.path;
}

}  // namespace

ReachedObjects reached_from(const Trackable& root) {
  ReachedObjects reached;
  std::unordered_map<const void*, int> numbers;
  const auto number_of = [&](const std::shared_ptr<TrackableBody>& body, std::string path,
                             bool optional) {
    const auto [at, is_new] =
        numbers.try_emplace(identity_of(body).get(), static_cast<int>(reached.objects.size()));
    if (is_new) {
      reached.objects.push_back({body, std::move(path), optional});
      reached.graph.nodes.emplace_back();
    }
    return at->second;
  };
  number_of(root.trackable_body(), "", false);
  for (size_t at = 0; at < reached.objects.size(); ++at) {
    const ReachedObject parent = reached.objects[at];
    for (const TrackedChild& child : parent.body->children) {
      const int node = number_of(child.body, joined_path(parent.path, child.name),
                                 parent.optional || child.optional);
      reached.graph.nodes[at].children.push_back({node, child.name});
    }
  }
  return reached;
}

const char* attribute_of(const TrackedValue& value) {
  return std::holds_alternative<HostState<std::string>>(value) ? kBytesValue : kVariableValue;
}

void save_objects(const Trackable& root, const std::filesystem::path& prefix) {
  ReachedObjects reached = reached_from(root);
  BundleWriter writer;
  ValueSaver saver(writer);
  for (size_t i = 0; i < reached.objects.size(); ++i) {
    const ReachedObject& object = reached.objects[i];
    if (!object.body->has_value()) continue;
    const char* attribute = attribute_of(object.body->value);
    const std::string key = key_of(object.path, attribute);
    std::visit([&](const auto& value) { saver.save(key, value); }, object.body->value);
    reached.graph.nodes[i].attributes.push_back({attribute, full_name_of(object), key});
  }
  writer.add_string(kObjectGraphKey, encode(reached.graph));
  writer.write(prefix);
}

}  // namespace tandem::checkpoint
