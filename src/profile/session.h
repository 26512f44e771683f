/// One profile: its rows of intervals, from start to stop.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "profile/span.h"
#include "tandem/profile.h"

namespace tandem::profile {

/// The row of one thread, which alone writes it; the lock is for the reader at the end.
struct ProfileRow {
  std::string name;
  std::mutex mutex;
  std::vector<Interval> intervals;
};

/// How long a device had nothing to do, and what it waited for.
struct IdleTime {
  std::string row;
  std::string why;  ///< "waiting for the host"
  double seconds = 0;
};

class Session {
 public:
  explicit Session(uint64_t id) : id_(id), begin_ns_(now_ns()) {}

  uint64_t id() const { return id_; }
  std::shared_ptr<ProfileRow> add_row(const std::string& name);

  /// The row of this name; adds it where there is none.
  std::shared_ptr<ProfileRow> row_named(const std::string& name);

  Summary summary() const;
  std::vector<IdleTime> idle() const;
  std::vector<std::shared_ptr<ProfileRow>> rows() const;
  int64_t begin_ns() const { return begin_ns_; }

 private:
  const uint64_t id_;
  const int64_t begin_ns_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<ProfileRow>> rows_;
};

/// A profile that has ended.
struct Recorded {
  Summary summary;
  std::vector<IdleTime> idle;
  std::vector<std::shared_ptr<ProfileRow>> rows;
  int64_t begin_ns = 0;  ///< When it began.
};

/// The events of a Chrome trace, divided by commas: those of one process, which has this number and
/// name in it. Times are counted from `zero_ns`.
std::string trace_events(const std::vector<std::shared_ptr<ProfileRow>>& rows, int64_t zero_ns,
                         int process, const std::string& name);

/// Writes a Chrome trace of the events of several processes. Throws Unavailable.
void write_trace(const std::string& path, const std::vector<std::string>& events);

/// As stop() for users.
Recorded finish(const std::string& path = {});

/// The session; null where no profile is being taken.
std::shared_ptr<Session> current_session();

}  // namespace tandem::profile
