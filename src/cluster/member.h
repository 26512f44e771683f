/// This process as one of those that train together: its line to the coordinator.
///
/// One thread of its own sends a heartbeat every half second, over a connection that carries
/// nothing else, and says what this process does. What the coordinator says comes on threads of the
/// plugin.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/cluster_config.h"
#include "cluster/frame.h"
#include "cluster/frame_stream.h"
#include "cluster/handshake.h"
#include "cluster/verdict.h"
#include "collective/exchanger.h"

namespace tandem::cluster {

struct MemberOptions {
  Cluster cluster = {};
  std::string secret = {};
  TlsFiles tls = {};
  std::string address = {};  ///< The transport's address.
  std::chrono::nanoseconds join_timeout = std::chrono::minutes(5);
};

/// A rank as the coordinator introduces it.
struct MemberEntry {
  std::string host, process, task, address;
};

class Member {
 public:
  /// Returns when all ranks have come. Throws DeadlineExceeded, which says who is missing, and
  /// FailedPrecondition if it is not let in.
  explicit Member(MemberOptions options);
  /// Says goodbye.
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  int generation() const { return generation_; }
  uint64_t tag_seed() const { return tag_seed_; }
  const std::vector<MemberEntry>& members() const { return members_; }
  /// "rank 2 (worker 2, hostB, process 4711)"
  std::string describe(int rank) const;

  /// Calls `on_verdict` once the group has ended by an error, on any thread; at once if it has.
  /// `waiting` says what this process waits for.
  void begin_beats(std::function<void(const Verdict&)> on_verdict,
                   std::function<collective::Exchanger::Waiting()> waiting);

  std::vector<std::string> gather_texts(std::string_view name, const std::string& text,
                                        std::chrono::nanoseconds timeout);
  void abort(std::string_view reason);
  void note_progress(std::string_view phase, std::int64_t step);

  /// Tells the coordinator of a trouble and waits a moment for what it decides; decides itself if
  /// it hears nothing.
  Verdict judge(const collective::ExchangeTrouble& trouble);

  std::optional<Verdict> verdict() const;

 private:
  using Clock = std::chrono::steady_clock;
  class Line;
  struct Anchor {
    std::mutex mutex;  // Guards all of the member.
    std::condition_variable changed;
    Member* member = nullptr;
  };

  std::shared_ptr<Line> open_line(const std::string& purpose);
  void wait_for_all();
  void on_frame(const Frame& frame);
  void on_line_end(bool beats, const std::string& why);
  void set_verdict(Verdict verdict);
  std::string coordinator_name() const;
  void beat();
  void try_beats_again(std::unique_lock<std::mutex>& lock);
  void watch_coordinator(Clock::time_point now, std::unique_lock<std::mutex>& lock);
  std::optional<Verdict> wait_for_verdict(std::unique_lock<std::mutex>& lock,
                                          std::chrono::milliseconds patience);

  MemberOptions options_;
  std::shared_ptr<Anchor> anchor_;
  std::shared_ptr<Line> control_;
  std::shared_ptr<Line> beats_;
  int generation_ = 0;
  uint64_t tag_seed_ = 0;
  std::vector<MemberEntry> members_;
  std::optional<Verdict> verdict_;
  std::string refusal_;
  bool coordinator_left_ = false;
  std::function<void(const Verdict&)> on_verdict_;
  std::function<collective::Exchanger::Waiting()> waiting_;

  std::string phase_;
  int64_t step_ = 0;
  Clock::time_point phase_since_;

  Clock::time_point heard_;
  bool probed_ = false;
  bool answers_ = false;
  int64_t gatherings_ = 0;
  std::map<std::string, std::map<int, std::pair<std::string, bool>>> texts_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace tandem::cluster
