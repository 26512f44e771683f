#include "profile/span.h"

#include <utility>

#include "profile/row_scope.h"
#include "profile/session.h"

namespace tandem::profile {
namespace {

thread_local std::string row_name;
thread_local int current_replica = -1;

thread_local uint64_t row_session = 0;
thread_local std::shared_ptr<ProfileRow> row;

/// This thread's row in a session, made on its first interval.
ProfileRow& own_row(Session& session) {
  if (!row || row_session != session.id()) {
    row = session.add_row(row_name);
    row_session = session.id();
  }
  return *row;
}

}  // namespace

std::atomic<bool> profiling{false};

void add(const Interval& interval) {
  const std::shared_ptr<Session> session = current_session();
  if (!session) return;
  ProfileRow& own = own_row(*session);
  std::lock_guard lock(own.mutex);
  own.intervals.push_back(interval);
  own.intervals.back().replica = current_replica;
}

void record_on(const std::string& row_name, const Interval& interval) {
  const std::shared_ptr<Session> session = current_session();
  if (!session) return;
  ProfileRow& row = *session->row_named(row_name);
  std::lock_guard lock(row.mutex);
  row.intervals.push_back(interval);
}

void set_replica(int replica) { current_replica = replica; }

void name_row(const std::string& name) {
  if (!row_name.empty()) return;
  row_name = name;
  if (!row) return;
  std::lock_guard lock(row->mutex);
  row->name = name;
}

RowScope::RowScope(const std::string& name) {
  const std::shared_ptr<Session> session = current_session();
  if (!session) return;
  is_open_ = true;
  former_ = row_session == session->id() ? row : nullptr;
  former_name_ = std::exchange(row_name, name);
  row = session->row_named(name);
  row_session = session->id();
}

RowScope::~RowScope() {
  if (!is_open_) return;
  row = std::move(former_);
  row_name = std::move(former_name_);
}

}  // namespace tandem::profile
