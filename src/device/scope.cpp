#include "device/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "tandem/device.h"
#include "tandem/log.h"

namespace tandem {
namespace {

struct Entry {
  uint64_t id;
  DeviceSpec spec;
  devices::DevicePtr device;  // Found on first use.
};

// Per thread, innermost last.
thread_local std::vector<Entry> open_scopes;
std::atomic<uint64_t> next_id{1};  // Over all threads: a scope may be left on another one.

}  // namespace

DeviceSpec current_device_scope() {
  return open_scopes.empty() ? DeviceSpec() : open_scopes.back().spec;
}

DeviceScope::DeviceScope(const DeviceSpec& merged) : id_(next_id++) {
  open_scopes.push_back({id_, merged, nullptr});
}

DeviceScope::~DeviceScope() {
  const auto mine =
      std::ranges::find_if(open_scopes, [this](const Entry& entry) { return entry.id == id_; });
  if (mine == open_scopes.end()) {
    logging::write(logging::Level::error,
                   "device scope: left on another thread than it was opened on");
    return;
  }
  if (mine + 1 != open_scopes.end()) {
    logging::write(logging::Level::error,
                   fmt::format("device scope: '{}' is left before the scopes opened inside it",
                               mine->spec.str()));
  }
  open_scopes.erase(mine);
}

DeviceScope device(std::string_view name) {
  return DeviceScope(current_device_scope().merged_with(DeviceSpec::parse(name)));
}

DeviceScope device(std::nullptr_t) { return DeviceScope(DeviceSpec()); }

namespace devices {

const DevicePtr* scope_device() {
  if (open_scopes.empty()) return nullptr;
  Entry& innermost = open_scopes.back();
  if (innermost.spec == DeviceSpec()) return nullptr;
  if (!innermost.device) innermost.device = find_device(innermost.spec);
  return &innermost.device;
}

}  // namespace devices
}  // namespace tandem
