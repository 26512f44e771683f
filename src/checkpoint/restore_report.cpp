#include "checkpoint/restore_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/saving.h"
#include "tandem/log.h"

namespace tandem::checkpoint {
namespace {

/// All values that the root of a checkpoint reaches, or one of its children.
std::vector<ReachedObject> values_of(const std::shared_ptr<TrackableBody>& object,
                                     const std::string& path = {}) {
  std::vector<ReachedObject> values = reached_from(object, Order::by_own_names_first, path).objects;
  std::erase_if(values, [](const ReachedObject& one) {
    return !one.body->has_value() || one.path == kSaveCounter;
  });
  return values;
}

bool has_restored_none(const Restoration& restoration, const std::vector<ReachedObject>& values) {
  return std::ranges::none_of(
      values, [&](const ReachedObject& one) { return restoration.has_restored(one.body); });
}

void warn(const Restoration& restoration, const std::string& what,
          const std::vector<ReachedObject>& values) {
  std::vector<std::string> names(values.size());
  std::ranges::transform(values, names.begin(), &ReachedObject::path);
  logging::write(logging::Level::warning,
                 fmt::format("restore: {}: nothing in it matched {}, which has {}; values of the "
                             "checkpoint that no object has taken: {}",
                             restoration.prefix().string(), what, listed(names),
                             listed(restoration.untaken())));
}

}  // namespace

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, ... ({} in all)", fmt::join(names.begin(), names.begin() + kShown, ", "),
                     names.size());
}

train::RestoreReport report_of(const Restoration* restoration, const Trackable& root) {
  train::RestoreReport report;
  for (const ReachedObject& one : values_of(root.trackable_body())) {
    if (restoration != nullptr && restoration->has_restored(one.body)) {
      report.matched.push_back(one.path);
    } else if (!one.optional) {
      report.unmatched_in_objects.push_back(one.path);
    }
  }
  if (restoration != nullptr) report.unmatched_in_checkpoint = restoration->untaken();
  return report;
}

void warn_of_mismatches(Restoration& restoration, const Trackable& root) {
  const std::vector<ReachedObject> all = values_of(root.trackable_body());
  if (all.empty()) {
    restoration.warn_at_end(true);
    return;
  }
  if (has_restored_none(restoration, all)) {
    warn(restoration, "the objects", all);
    return;
  }
  for (const TrackedChild& child : root.trackable_body()->children) {
    if (child.is_fallback() || !restoration.names(child.name)) continue;
    const auto own = values_of(child.body, joined_path("", child.name));
    if (own.empty() || !has_restored_none(restoration, own)) continue;
    warn(restoration, fmt::format("'{}'", child.name), own);
  }
}

}  // namespace tandem::checkpoint
