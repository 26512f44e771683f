#include "distribute/range/update_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "tandem/error.h"

namespace tandem::distribute {

PushAnswer UpdateLedger::admit(const PushStamp& push) {
  using enum PushAnswer::Outcome;
  const auto last = last_.find(push.worker);
  if (last != last_.end()) {
    const LastPush& known = last->second;
    if (push.incarnation < known.incarnation) return {.outcome = refused, .version = version_};
    if (push.incarnation == known.incarnation && push.sequence == known.sequence) {
      PushAnswer again = known.answer;
      again.outcome = repeated;
      return again;
    }
  }
  PushAnswer answer{.version = version_};
  if (has(push.ticket) || held_.contains(push.ticket)) {
    answer.outcome = repeated;
  } else if (options_.synchronous) {
    // Otherwise it was computed from values that are gone since the servers came back.
    const bool is_its_step = push.ticket / options_.shares == version_;
    if (!is_its_step || push.base_version != version_) {
      return {.outcome = refused, .version = version_};
    }
    held_.insert(push.ticket);
    answer.outcome = held;
  } else {
    answer.staleness = std::max<int64_t>(version_ - push.base_version, 0);
    const bool is_late = options_.drop_older_than && answer.staleness > *options_.drop_older_than;
    answer.outcome = is_late ? dropped : applied;
    if (options_.damping) answer.scale = 1.0 / (1.0 + static_cast<double>(answer.staleness));
    if (!is_late) answer.version = ++version_;
    made_.insert(push.ticket);
    statistics_.add(push.worker, answer.staleness);
  }
  last_[push.worker] = {push.incarnation, push.sequence, answer};
  return answer;
}

bool UpdateLedger::is_whole(int64_t step) const {
  const int64_t first = step * options_.shares;
  for (int64_t ticket = first; ticket < first + options_.shares; ++ticket) {
    if (!held_.contains(ticket)) return false;
  }
  return options_.synchronous && version_ == step;
}

std::optional<int64_t> UpdateLedger::commit(int64_t step) {
  if (version_ >= step || !is_whole(version_)) return std::nullopt;
  const int64_t first = version_ * options_.shares;
  for (int64_t ticket = first; ticket < first + options_.shares; ++ticket) {
    held_.erase(ticket);
    made_.insert(ticket);
    statistics_.add(static_cast<int>(ticket - first), 0);
  }
  return version_++;
}

std::string UpdateLedger::save() const {
  std::string text = fmt::format("{} {} {}", version_, made_.mark(), made_.above().size());
  for (int64_t ticket : made_.above()) text += fmt::format(" {}", ticket);
  return text;
}

void UpdateLedger::restore(const std::string& saved) {
  std::istringstream in(saved);
  int64_t version = 0;
  int64_t mark = 0;
  size_t count = 0;
  std::set<int64_t> above;
  bool is_sound = static_cast<bool>(in >> version >> mark >> count);
  for (int64_t ticket = 0; is_sound && above.size() < count;) {
    is_sound = static_cast<bool>(in >> ticket) && above.insert(ticket).second;
  }
  if (!is_sound || version < 0 || mark < 0) {
    throw DataLoss(fmt::format("parameter server: '{}' is no list of updates", saved));
  }
  version_ = version;
  made_ = NumberSet(mark, std::move(above));
  held_.clear();
  last_.clear();
}

}  // namespace tandem::distribute
