#include "device/placement_log.h"

#include <fmt/format.h>

#include <mutex>
#include <set>
#include <utility>

#include "tandem/log.h"

namespace tandem {
namespace {

constexpr size_t kMostKept = 4096;

struct PlacementState {
  std::mutex mutex;
  std::vector<Placement> kept;
  std::set<std::string> known;      // Lines of the log.
  std::set<std::string> fallbacks;  // Op names with reasons.
  bool full = false;
};

PlacementState& state() {
  static auto* instance = new PlacementState;
  return *instance;
}

std::string line(const Placement& placement) {
  return fmt::format("{} -> {}: asked for {}; {}", placement.op, placement.device,
                     placement.requested.empty() ? "no device" : placement.requested,
                     placement.reason);
}

enum class Kept { already, now, not_any_more, no };

Kept keep(Placement placement, const std::string& text) {
  std::lock_guard lock(state().mutex);
  if (state().known.contains(text)) return Kept::already;
  if (state().kept.size() == kMostKept) {
    return std::exchange(state().full, true) ? Kept::no : Kept::not_any_more;
  }
  state().known.insert(text);
  state().kept.push_back(std::move(placement));
  return Kept::now;
}

void report(Placement placement, logging::Level level) {
  const std::string text = line(placement);
  const Kept kept = keep(std::move(placement), text);
  if (kept == Kept::now) logging::write(level, fmt::format("placement: {}", text));
  if (kept == Kept::not_any_more) {
    logging::write(logging::Level::warning,
                   fmt::format("placement: {} distinct placements are kept, later ones are not "
                               "reported; clear_placement_report makes room",
                               kMostKept));
  }
}

}  // namespace

namespace devices {

void report_placement(Placement placement) { report(std::move(placement), logging::Level::info); }

void report_fallback(const std::string& op_name, Placement placement) {
  {
    std::lock_guard lock(state().mutex);
    if (!state().fallbacks.insert(op_name + " " + placement.reason).second) return;
  }
  report(std::move(placement), logging::Level::warning);
}

}  // namespace devices

std::vector<Placement> placement_report() {
  std::lock_guard lock(state().mutex);
  return state().kept;
}

void clear_placement_report() {
  std::lock_guard lock(state().mutex);
  state().kept.clear();
  state().known.clear();
  state().fallbacks.clear();
  state().full = false;
}

}  // namespace tandem
