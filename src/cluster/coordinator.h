/// Where the ranks of a training meet. It tells them about each other once all have come, hears
/// their heartbeats, decides which error was the first, and tells it to all.
///
/// It lives in rank 0's process, or in the launcher. One thread of its own watches the clock;
/// frames come on threads of the plugin.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cluster/cluster_config.h"
#include "cluster/frame.h"
#include "cluster/frame_stream.h"
#include "cluster/handshake.h"
#include "cluster/verdict.h"

namespace tandem::cluster {

struct CoordinatorOptions {
  std::string listen;   ///< "127.0.0.1:0"
  std::string cluster;  ///< Its id.
  int size = 0;
  std::string secret = {};
  TlsFiles tls = {};
  /// Whether `report_exit` will tell how processes of this host end.
  bool watches_processes = false;
  std::function<void(const std::string&)> log = {};
};

class Coordinator {
 public:
  /// Throws Unavailable if it cannot listen there.
  explicit Coordinator(CoordinatorOptions options);
  /// Members hear that it leaves.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  int port() const { return server_->port(); }

  /// The launcher saw a process end: "SIGKILL", "exit code 3". Deaths are then told with their
  /// cause.
  void report_exit(int rank, const std::string& cause);

  /// The first error of all, if there was one.
  std::optional<Verdict> verdict() const;

 private:
  using Clock = std::chrono::steady_clock;
  class Visitor;
  /// What visitors hold of the coordinator: they may outlive it.
  struct Anchor {
    std::mutex mutex;  // Guards all of the coordinator.
    Coordinator* coordinator = nullptr;
  };

  /// What is known of a rank of a generation.
  struct Membership {
    bool present = false;
    bool left = false;       // Without an error.
    bool connected = false;  // Its stream is open.
    std::shared_ptr<FrameStream> stream;
    std::string host, process, task, address, from;
    Clock::time_point heard{};  // Its last heartbeat.
    bool beats = false;
    std::string phase, step, in_phase, waits_for, exchange, signature;
    Clock::time_point waits_since{};  // When it was first heard to wait in this exchange.
    Clock::time_point lost{};         // When its stream ended.
    bool probed = false, answers = false;
    Clock::time_point suspected{};  // When another rank lost its connection to it.
    std::string suspicion;
  };

  struct Gathering {
    std::string name;
    std::map<int, std::string> texts;
    std::set<int> complete;
    Clock::time_point since;
  };

  struct Generation {
    int number = 0;
    std::vector<Membership> members;
    Clock::time_point opened;
    Clock::time_point said;  // When it was last told who is missing.
    bool running = false;
    std::optional<Verdict> verdict;
    std::map<std::string, Gathering> gatherings;
  };

  void watch();
  void watch_start(Generation& generation, Clock::time_point now);
  void watch_member(Generation& generation, int rank, Clock::time_point now,
                    std::unique_lock<std::mutex>& lock);
  void watch_who_waits_for(Generation& generation, int rank, Clock::time_point now);
  void watch_gatherings(Generation& generation, Clock::time_point now);
  void close_idle_visitors(Clock::time_point now);
  void open_generation();
  std::string join(const std::shared_ptr<Visitor>& visitor, const Frame& proof);
  void welcome(Generation& generation);
  void on_member_frame(Generation& generation, int rank, const Frame& frame);
  void on_beat(Generation& generation, int rank, const Frame& frame);
  void on_text(Generation& generation, int rank, const Frame& frame);
  void on_trouble(Generation& generation, int rank, const Frame& frame);
  void on_stream_end(Generation& generation, int rank);
  /// Ends a generation because of `rank`, which itself may be told something else.
  void decide(Generation& generation, int rank, const char* kind, const std::string& text,
              const std::string& to_rank = "");
  void decide_death(Generation& generation, int rank);
  std::string describe(const Generation& generation, int rank) const;
  std::string place_of(const Membership& member) const;
  void log(const std::string& text) const;
  void log_of_visitor(const std::string& peer, const char* what, const std::string& why);

  CoordinatorOptions options_;
  std::shared_ptr<Anchor> anchor_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::list<Generation> generations_;  // The last one is open or running.
  std::map<int, std::string> exits_;
  std::map<std::string, Clock::time_point> refused_;  // When an address was last told of.
  int pending_ = 0;                                   // Visitors that have not proved themselves.
  std::vector<std::weak_ptr<Visitor>> visitors_;
  std::unique_ptr<FrameServer> server_;
  std::thread thread_;
};

}  // namespace tandem::cluster
