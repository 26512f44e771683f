#include "profile/recorder.h"

#include "profile/session.h"

namespace tandem::profile {
namespace {

thread_local std::string row_name;
thread_local int current_replica = -1;

thread_local uint64_t row_session = 0;
thread_local std::shared_ptr<Row> row;

/// This thread's row in a session, made on its first event.
Row& own_row(Session& session) {
  if (!row || row_session != session.id()) {
    row = session.add_row(row_name);
    row_session = session.id();
  }
  return *row;
}

}  // namespace

std::atomic<bool> recording{false};

void record(const Event& event) {
  const std::shared_ptr<Session> session = current_session();
  if (!session) return;
  Row& own = own_row(*session);
  std::lock_guard lock(own.mutex);
  own.events.push_back(event);
  own.events.back().replica = current_replica;
}

void set_replica(int replica) { current_replica = replica; }

void name_row(const std::string& name) {
  if (!row_name.empty()) return;
  row_name = name;
  if (!row) return;
  std::lock_guard lock(row->mutex);
  row->name = name;
}

}  // namespace tandem::profile
