/// What the chief's process knows of the sessions of its program, and how it tells others of them.
/// Strategies may follow one another in a program, so the sessions are the process's; any thread
/// may ask.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "distribute/server/server_cluster.h"

namespace tandem::distribute {

struct SessionRecord {
  std::string random_state{};  ///< The chief's when it began.
  bool has_ended = false;
  std::string error{};
  std::string result{};
  ServerStates states{};  ///< Those of all servers when it ended; the last session's alone.
};

class SessionBook {
 public:
  static SessionBook& of_process();

  /// Begins a session; one that is open ends.
  void open(std::string random_state);
  /// The last session's number; -1: there was none.
  int64_t last() const;
  /// Ends the last session; nothing where it has ended.
  std::optional<SessionRecord> end(const std::string& error, const std::string& result,
                                   ServerStates states);
  /// Nothing where there is no such session yet.
  std::optional<SessionRecord> find(int64_t session) const;

 private:
  mutable std::mutex mutex_;
  std::vector<SessionRecord> records_;
};

cluster::ServiceMessage text_message(std::string text);

/// What everybody is told of a session that has ended.
cluster::ServiceMessage end_message(const SessionRecord& record);

/// Some bytes of states: none behind their end, and where there are no states.
cluster::ServiceMessage part_of(const ServerStates& states, int64_t moment, uint64_t offset);

}  // namespace tandem::distribute
