#include "device/copies.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "core/tensor_type.h"
#include "device/settings.h"
#include "tandem/device/placement.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::devices {
namespace {

struct Count {
  uint64_t copies = 0;
  uint64_t bytes = 0;
};

struct CopyState {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Count> counts;  // By source and target.
  std::set<std::string> warned;
};

CopyState& state() {
  static auto* instance = new CopyState;  // Tensors may be copied at any point of the exit.
  return *instance;
}

thread_local bool is_explicit = false;

}  // namespace

void count_copy(const std::string& from, const std::string& to, size_t bytes) {
  std::lock_guard lock(state().mutex);
  Count& count = state().counts[{from, to}];
  ++count.copies;
  count.bytes += bytes;
}

void check_input_copy(const char* op, DType dtype, const Shape& shape, const Device& from,
                      const Device& to) {
  const auto policy = settings.policy.load(std::memory_order_relaxed);
  if (policy == config::DevicePolicy::silent || is_explicit) return;
  if (policy == config::DevicePolicy::forbid) {
    throw FailedPrecondition(fmt::format(
        "{}: an input {} is on {} and the op runs on {}; the device policy forbids the copy: "
        "make it with copy_to_device, or open a scope on the input's device",
        op, TensorType{dtype, shape}.str(), from.name(), to.name()));
  }
  std::string message =
      fmt::format("{}: an input is copied from {} to {}", op, from.name(), to.name());
  {
    std::lock_guard lock(state().mutex);
    if (!state().warned.insert(message).second) return;
  }
  logging::write(logging::Level::warning, message);
}

void forget_copies() {
  std::lock_guard lock(state().mutex);
  state().counts.clear();
  state().warned.clear();
}

ExplicitCopy::ExplicitCopy() : former_(std::exchange(is_explicit, true)) {}
ExplicitCopy::~ExplicitCopy() { is_explicit = former_; }

}  // namespace tandem::devices

namespace tandem {

std::vector<CopyCount> copy_report() {
  std::vector<CopyCount> report;
  std::lock_guard lock(devices::state().mutex);
  for (const auto& [pair, count] : devices::state().counts) {
    report.push_back({pair.first, pair.second, count.copies, count.bytes});
  }
  return report;
}

void reset_copy_report() {
  std::lock_guard lock(devices::state().mutex);
  devices::state().counts.clear();
}

}  // namespace tandem
