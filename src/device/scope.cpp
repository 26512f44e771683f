#include "device/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "device/inventory.h"
#include "device/settings.h"
#include "device/task.h"
#include "tandem/device.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem {
namespace {

struct ScopeEntry {
  uint64_t id;
  DeviceSpec spec;
  devices::DevicePtr device;  // Found on first use.
};

/// The scopes that are open on one thread.
struct Scopes {
  std::vector<ScopeEntry> open;  // Innermost last.
  std::string misuse;            // Thrown by the next use.
};

thread_local Scopes scopes;
std::atomic<uint64_t> next_id{1};  // Over all threads: a scope may be left on another one.

void check_order() {
  if (scopes.misuse.empty()) return;
  throw FailedPrecondition(std::exchange(scopes.misuse, {}));
}

void report_misuse(std::string message) {
  logging::write(logging::Level::error, message);
  scopes.misuse = std::move(message);
}

}  // namespace

DeviceSpec current_device_scope() {
  check_order();
  return scopes.open.empty() ? DeviceSpec() : scopes.open.back().spec;
}

DeviceScope::DeviceScope(const DeviceSpec& merged) : id_(next_id++) {
  scopes.open.push_back({id_, merged, nullptr});
}

DeviceScope::~DeviceScope() {
  const auto mine = std::ranges::find(scopes.open, id_, &ScopeEntry::id);
  if (mine == scopes.open.end()) {
    report_misuse("device scope: left on another thread than it was opened on");
    return;
  }
  if (mine + 1 != scopes.open.end()) {
    report_misuse(fmt::format(
        "device scope: '{}' was left before '{}', which was opened inside it; leave scopes in "
        "reverse order",
        mine->spec.str(), scopes.open.back().spec.str()));
  }
  scopes.open.erase(mine);
}

DeviceScope device(std::string_view name) {
  return DeviceScope(current_device_scope().merged_with(DeviceSpec::parse(name)));
}

DeviceScope device(std::nullptr_t) {
  check_order();
  return DeviceScope(DeviceSpec());
}

namespace devices {

const DevicePtr* scope_device() {
  check_order();
  if (scopes.open.empty()) return nullptr;
  ScopeEntry& innermost = scopes.open.back();
  if (innermost.spec == DeviceSpec()) return nullptr;
  if (!innermost.device) {
    if (settings.soft_placement && scope_device_is_missing()) return &host_device();
    innermost.device = find_device(innermost.spec);
  }
  return &innermost.device;
}

bool scope_device_is_missing() {
  if (scopes.open.empty() || scopes.open.back().device) return false;
  const DeviceSpec& spec = scopes.open.back().spec;
  return Inventory::instance().find(spec, true) == nullptr && !is_of_another_task(spec);
}

}  // namespace devices
}  // namespace tandem
