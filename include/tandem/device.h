/// Names of devices, and scopes that say where operations run. Names are TensorFlow's:
/// `/job:worker/replica:0/task:1/device:GPU:0`, any part left out; `/gpu:0` and `CPU:1` are short
/// forms. The devices of this process are those of `/job:localhost/replica:0/task:0`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tandem/export.h"

namespace tandem {

/// A full or partial device name. A part that is not set matches anything.
struct TANDEM_API DeviceSpec {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;  ///< In capitals: "CPU", "GPU".
  std::optional<int> index;

  /// Throws InvalidArgument for a malformed name, with the place and what is accepted.
  static DeviceSpec parse(std::string_view name);

  /// "/job:worker/replica:0/task:1/device:GPU:0", with the parts that are set; "/device:GPU:*"
  /// where only the type is.
  std::string str() const;

  /// This name with the parts that `inner` sets replaced. Type and index merge separately.
  DeviceSpec merged_with(const DeviceSpec& inner) const;

  /// True when every part set here is the same in `full`.
  bool matches(const DeviceSpec& full) const;

  bool operator==(const DeviceSpec&) const = default;
};

/// While it lives, operations of this thread run on the named device. Scopes nest: inside, what the
/// inner name leaves open is taken from the outer. They must be left in reverse order, on the
/// thread that opened them. A destructor cannot throw, so a scope that is left otherwise is logged
/// as an error and removed alone, and the next use of this thread's scopes, an op or one of the
/// functions below, throws FailedPrecondition naming both scopes; after that the thread goes on.
class TANDEM_API DeviceScope {
 public:
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  friend DeviceScope device(std::string_view name);
  friend DeviceScope device(std::nullptr_t);
  explicit DeviceScope(const DeviceSpec& merged);
  uint64_t id_;
};

/// Opens a scope: `auto scope = tandem::device("/GPU:0");` That the device exists is found out by
/// the first op. Throws InvalidArgument for a malformed name, FailedPrecondition as DeviceScope
/// says.
[[nodiscard]] TANDEM_API DeviceScope device(std::string_view name);

/// Opens a scope in which no outer one counts. Throws FailedPrecondition as DeviceScope says.
[[nodiscard]] TANDEM_API DeviceScope device(std::nullptr_t);

/// What the scopes of this thread ask for; empty outside of any. Throws FailedPrecondition as
/// DeviceScope says.
TANDEM_API DeviceSpec current_device_scope();

}  // namespace tandem
