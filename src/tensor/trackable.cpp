// Objects with named children. A restore that came before a child was tracked waits in the parent,
// and is told here.
#include <fmt/format.h>

#include <algorithm>

#include "tandem/error.h"
#include "tensor/trackable_body.h"

namespace tandem {
namespace {

std::shared_ptr<TrackableBody> value_node(TrackedValue value) {
  auto body = std::make_shared<TrackableBody>();
  body->value = std::move(value);
  return body;
}

template <class T>
HostState<T> checked(HostState<T> state) {
  if (!state.save || !state.restore) {
    throw InvalidArgument("trackable: a HostState needs both functions, save and restore");
  }
  return state;
}

const Variable& checked(const Variable& variable) {
  variable.body();
  return variable;
}

}  // namespace

Trackable::Trackable() : body_(std::make_shared<TrackableBody>()) {}
Trackable::Trackable(const Variable& variable) : body_(value_node(checked(variable))) {}
Trackable::Trackable(HostState<std::string> state) : body_(value_node(checked(std::move(state)))) {}
Trackable::Trackable(HostState<int64_t> state) : body_(value_node(checked(std::move(state)))) {}
Trackable::Trackable(HostState<float> state) : body_(value_node(checked(std::move(state)))) {}
Trackable::Trackable(HostState<double> state) : body_(value_node(checked(std::move(state)))) {}

void Trackable::track(const std::string& name, const Trackable& child,
                      const TrackOptions& options) const {
  if (body_->has_value()) {
    throw FailedPrecondition(
        fmt::format("track: '{}' cannot be a child of a variable or of a host state", name));
  }
  if (name.empty()) throw InvalidArgument("track: a child needs a name");
  const auto former = std::ranges::find(body_->children, name, &TrackedChild::name);
  if (former != body_->children.end()) {
    if (identity_of(former->body) == identity_of(child.body_)) return;
    if (!options.overwrite) {
      throw InvalidArgument(fmt::format("track: another child is called '{}' already", name));
    }
    *former = {name, child.body_, options};
    return;
  }
  body_->children.push_back({name, child.body_, options});
  if (body_->waiting) {
    // The child may track more while it is given its values.
    const TrackedChild tracked = body_->children.back();
    body_->waiting->on_child_tracked(body_->waiting_node, tracked);
  }
}

std::vector<std::string> Trackable::tracked_names() const {
  std::vector<std::string> names;
  for (const TrackedChild& child : body_->children) {
    if (!child.options.restore_only) names.push_back(child.name);
  }
  return names;
}

std::shared_ptr<const void> identity_of(const std::shared_ptr<TrackableBody>& body) {
  if (const auto* variable = std::get_if<Variable>(&body->value)) return variable->body();
  return body;
}

}  // namespace tandem
