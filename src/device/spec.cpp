// Names of devices, as text and taken apart: "/job:worker/replica:0/task:1/device:GPU:0" with any
// field left out, and the short form "/gpu:0". Merging two names is done field by field, so that an
// inner scope may say less than the outer one and keep the rest of it.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "tandem/device.h"
#include "tandem/error.h"

namespace tandem {
namespace {

constexpr const char* kAccepted =
    "a device name looks like /job:worker/replica:0/task:1/device:GPU:0 with any part left out, "
    "or /gpu:0, CPU:1";

[[noreturn]] void malformed(std::string_view name, const std::string& what) {
  throw InvalidArgument(fmt::format("device name '{}': {}; {}", name, what, kAccepted));
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::toupper(c); });
  return result;
}

bool is_identifier(std::string_view text) {
  const auto ok = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) &&
         std::ranges::all_of(text, ok);
}

int parse_index(std::string_view name, std::string_view key, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || text[0] == '+') {
    malformed(name, fmt::format("'{}' is not a number for '{}'", text, key));
  }
  return value;
}

/// A number, or nothing for the wildcard.
std::optional<int> parse_optional_index(std::string_view name, std::string_view key,
                                        std::string_view text) {
  if (text == "*") return std::nullopt;
  return parse_index(name, key, text);
}

/// "GPU:0", "GPU" or "GPU:*" after "device:", or the short form "gpu:0".
void parse_device(std::string_view name, std::string_view text, DeviceSpec& spec) {
  const size_t colon = text.find(':');
  const std::string_view type = text.substr(0, colon);
  if (type != "*" && !is_identifier(type)) malformed(name, fmt::format("'{}' is no type", type));
  if (type != "*") spec.type = upper(type);
  if (colon != std::string_view::npos) {
    spec.index = parse_optional_index(name, type, text.substr(colon + 1));
  }
}

/// One part into `spec`; returns which it was.
std::string parse_part(std::string_view name, std::string_view part, DeviceSpec& spec) {
  const size_t colon = part.find(':');
  std::string key = lower(part.substr(0, colon));
  const bool has_value = colon != std::string_view::npos;
  const std::string_view value = has_value ? part.substr(colon + 1) : std::string_view();
  if (key == "cpu" || key == "gpu") {
    parse_device(name, part, spec);
    return "device";
  }
  if (key == "job" && has_value) {
    if (value != "*" && !is_identifier(value))
      malformed(name, fmt::format("'{}' is no job", value));
    if (value != "*") spec.job = value;
  } else if (key == "replica" && has_value) {
    spec.replica = parse_optional_index(name, key, value);
  } else if (key == "task" && has_value) {
    spec.task = parse_optional_index(name, key, value);
  } else if (key == "device" && has_value) {
    parse_device(name, value, spec);
  } else {
    malformed(name, fmt::format("'{}' is no part of a device name", part));
  }
  return key;
}

}  // namespace

DeviceSpec DeviceSpec::parse(std::string_view name) {
  DeviceSpec spec;
  std::string_view rest = name;
  if (rest.starts_with('/')) rest.remove_prefix(1);
  if (rest.empty()) {
    if (name.empty()) return spec;
    malformed(name, "nothing follows the slash");
  }
  std::set<std::string> given;
  while (true) {
    const size_t slash = rest.find('/');
    const std::string key = parse_part(name, rest.substr(0, slash), spec);
    if (!given.insert(key).second) malformed(name, fmt::format("'{}' is given twice", key));
    if (slash == std::string_view::npos) return spec;
    rest.remove_prefix(slash + 1);
  }
}

std::string DeviceSpec::str() const {
  std::string text;
  if (job) text += "/job:" + *job;
  if (replica) text += fmt::format("/replica:{}", *replica);
  if (task) text += fmt::format("/task:{}", *task);
  if (type || index) {
    text += fmt::format("/device:{}:{}", type.value_or("*"), index ? std::to_string(*index) : "*");
  }
  return text;
}

DeviceSpec DeviceSpec::merged_with(const DeviceSpec& inner) const {
  DeviceSpec merged = *this;
  if (inner.job) merged.job = inner.job;
  if (inner.replica) merged.replica = inner.replica;
  if (inner.task) merged.task = inner.task;
  if (inner.type) merged.type = inner.type;
  if (inner.index) merged.index = inner.index;
  return merged;
}

bool DeviceSpec::matches(const DeviceSpec& full) const {
  const auto fits = [](const auto& part, const auto& of) { return !part || part == of; };
  return fits(job, full.job) && fits(replica, full.replica) && fits(task, full.task) &&
         fits(type, full.type) && fits(index, full.index);
}

}  // namespace tandem
