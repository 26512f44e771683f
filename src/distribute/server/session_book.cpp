#include "distribute/server/session_book.h"

#include <algorithm>
#include <utility>

namespace tandem::distribute {

SessionBook& SessionBook::of_process() {
  static auto* const book = new SessionBook;
  return *book;
}

void SessionBook::open(std::string random_state) {
  const std::lock_guard lock(mutex_);
  if (!records_.empty()) records_.back().has_ended = true;
  records_.push_back({.random_state = std::move(random_state)});
}

int64_t SessionBook::last() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(records_.size()) - 1;
}

std::optional<SessionRecord> SessionBook::end(const std::string& error, const std::string& result,
                                              ServerStates states) {
  const std::lock_guard lock(mutex_);
  SessionRecord& record = records_.back();
  if (record.has_ended) return std::nullopt;
  // Who comes late gets the last ones.
  if (states) {
    for (SessionRecord& former : records_) former.states.reset();
  }
  record.has_ended = true;
  record.error = error;
  record.result = result;
  record.states = std::move(states);
  return record;
}

std::optional<SessionRecord> SessionBook::find(int64_t session) const {
  const std::lock_guard lock(mutex_);
  if (session < 0 || session >= static_cast<int64_t>(records_.size())) return std::nullopt;
  return records_[static_cast<size_t>(session)];
}

cluster::ServiceMessage text_message(std::string text) { return {std::move(text), {}}; }

cluster::ServiceMessage end_message(const SessionRecord& record) {
  MessageWriter answer;
  answer.add(ServerAnswer::end).add_text(record.error).add_text(record.result);
  return text_message(answer.add(record.states != nullptr).take());
}

cluster::ServiceMessage part_of(const ServerStates& states, int64_t moment, uint64_t offset) {
  MessageWriter answer;
  cluster::ServiceMessage message{answer.add(ServerAnswer::accepted).add(moment).take(), {}};
  if (states && offset < states->size()) {
    const size_t count = std::min<uint64_t>(kStatePart, states->size() - offset);
    message.parts.push_back({states->data() + offset, count, states});
  }
  return message;
}

}  // namespace tandem::distribute
