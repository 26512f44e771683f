// The rules of parameter servers under thousands of random schedules, on a simulated clock and
// network: messages are late, doubled and lost, workers die, stop for long and come back, servers
// die and come back from their last checkpoints. Each update adds one to each of a server's values,
// so that a value tells how many were made.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <queue>
#include <random>

#include "distribute/range/step_meeting.h"
#include "distribute/range/update_ledger.h"
#include "distribute/server/ticket_table.h"
#include "harness/soak.h"
#include "tandem/distribute/parameter_server.h"

namespace tandem::distribute {
namespace {

using namespace std::chrono_literals;
using Time = TicketTable::Time;
using Outcome = PushAnswer::Outcome;

struct Schedule {
  uint64_t seed = 0;
  int workers = 2;
  int servers = 1;
  int64_t staleness = unbounded;
  int batches = 20;
  bool kills_workers = false;
  bool kills_servers = false;
  int meetings = 0;  // Shares of a step meet so often before they are pushed.
  LedgerOptions rules{};
};

class Simulation {
 public:
  explicit Simulation(const Schedule& schedule)
      : schedule_(schedule),
        shares_(schedule.staleness == 0 ? schedule.workers : 1),
        random_(schedule.seed),
        chief_(schedule.staleness, shares_),
        meeting_(shares_) {
    LedgerOptions rules = schedule.rules;
    rules.synchronous = schedule.staleness == 0;
    rules.shares = shares_;
    for (int s = 0; s < schedule.servers; ++s) servers_.emplace_back(rules);
    workers_.resize(static_cast<size_t>(schedule.workers));
    for (int b = 0; b < schedule.batches; ++b) chief_.add(0, b);
  }

  void run() {
    for (int w = 0; w < schedule_.workers; ++w) start(w);
    at(1s, [this] { watch(); });
    at(delay(0s, 2s), [this] { save(); });
    if (schedule_.kills_workers) at(delay(0s, 3s), [this] { kill_worker(); });
    if (schedule_.kills_servers) at(delay(0s, 3s), [this] { kill_server(); });
    while (!events_.empty() && !chief_.all_done()) {
      const Event next = events_.top();
      events_.pop();
      now_ = next.time;
      ASSERT_LT(now_, 3600s) << "nothing moves any more; held:\n" << chief_.held(now_);
      next.happens();
    }
    ASSERT_TRUE(chief_.all_done());
  }

  /// What every server has made of all tickets.
  void check_values(int64_t dropped = 0) {
    for (Server& server : servers_) {
      while (server.commit(schedule_.batches)) continue;
      EXPECT_EQ(server.value, chief_.size() - dropped) << "seed " << schedule_.seed;
      for (int64_t t = 0; t < chief_.size(); ++t) EXPECT_TRUE(server.ledger.has(t));
    }
  }

  StalenessStatistics::Histogram staleness() const {
    return servers_[0].ledger.statistics().of_all();
  }
  int64_t dropped() const { return dropped_; }

 private:
  struct Server {
    explicit Server(const LedgerOptions& rules)
        : rules(rules), ledger(rules), saved(ledger.save()) {}
    bool commit(int64_t step) {
      if (!ledger.commit(step)) return false;
      value += rules.shares;
      return true;
    }
    void save() {
      saved = ledger.save();
      saved_value = value;
    }
    void restore() {
      ledger.restore(saved);
      value = saved_value;
    }

    LedgerOptions rules;
    UpdateLedger ledger;
    int64_t value = 0;
    std::string saved;
    int64_t saved_value = 0;
    int64_t generation = 0;
    bool is_up = true;
  };

  struct Worker {
    uint64_t incarnation = 0;
    bool is_up = false;
    Time stopped_until{};
    int64_t sequence = 0;
  };

  /// What a worker does with a ticket.
  struct Work {
    int worker;
    uint64_t incarnation;
    WorkTicket ticket;
    int64_t sequence;
    std::vector<int64_t> versions;
    std::vector<bool> answered;
    int pulled = 0;
    bool is_beside = false;
    bool is_void = false;
    int met = 0;
  };
  using WorkPtr = std::shared_ptr<Work>;

  struct Event {
    Time time;
    int64_t order;
    std::function<void()> happens;
    bool operator<(const Event& other) const {
      return std::pair(time, order) > std::pair(other.time, other.order);
    }
  };

  void at(Time after, std::function<void()> happens) {
    events_.push({now_ + after, ++events_made_, std::move(happens)});
  }
  Time delay(Time least, Time most) {
    return Time(std::uniform_int_distribution<int64_t>(least.count(), most.count())(random_));
  }
  Time latency() { return chance(0.05) ? delay(1ms, 2s) : delay(100us, 5ms); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  int pick(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

  /// Happens to the worker if it is still the same, when it is not stopped.
  void by_worker(int worker, uint64_t incarnation, Time after, std::function<void()> happens) {
    at(after, [=, this] {
      const Worker& self = workers_[static_cast<size_t>(worker)];
      if (!self.is_up || self.incarnation != incarnation) return;
      if (now_ < self.stopped_until) {
        by_worker(worker, incarnation, self.stopped_until - now_, happens);
      } else {
        happens();
      }
    });
  }

  void start(int w) {
    Worker& worker = workers_[static_cast<size_t>(w)];
    worker.is_up = true;
    join(w);
    beat(w, worker.incarnation);
  }

  void join(int w) {
    Worker& worker = workers_[static_cast<size_t>(w)];
    const uint64_t incarnation = ++worker.incarnation;
    by_worker(w, incarnation, latency(), [=, this] {
      chief_.join(w, incarnation, now_);
      ask(w, incarnation, false);
      if (schedule_.meetings == 0) return;
      for (int i = 1; i < shares_; ++i) ask(w, incarnation, true);
    });
    by_worker(w, incarnation, 1ms, [=, this] { beat(w, incarnation); });
  }

  void beat(int w, uint64_t incarnation) {
    chief_.heard_of(w, now_);
    by_worker(w, incarnation, 500ms, [=, this] { beat(w, incarnation); });
  }

  void watch() {
    chief_.leave_silent(now_, 4s);
    at(500ms, [this] { watch(); });
  }

  void ask(int w, uint64_t incarnation, bool is_beside) {
    if (!chief_.is_there(w, incarnation)) return join(w);  // It was thought dead.
    const std::optional<WorkTicket> ticket = is_beside ? chief_.take_beside(w) : chief_.take(w);
    if (!ticket) {
      return by_worker(w, incarnation, delay(1ms, 20ms),
                       [=, this] { ask(w, incarnation, is_beside); });
    }
    if (schedule_.staleness > 0) {
      EXPECT_LE(chief_.lead(w), schedule_.staleness) << "seed " << schedule_.seed;
    }
    if (schedule_.staleness == 0) {
      EXPECT_EQ(ticket->step(), chief_.whole_steps());
    }
    auto work = std::make_shared<Work>(Work{.worker = w,
                                            .incarnation = incarnation,
                                            .ticket = *ticket,
                                            .sequence = ++workers_[static_cast<size_t>(w)].sequence,
                                            .versions = std::vector<int64_t>(servers_.size()),
                                            .answered = std::vector<bool>(servers_.size()),
                                            .is_beside = is_beside});
    for (size_t s = 0; s < servers_.size(); ++s) pull(work, s);
  }

  void pull(const WorkPtr& work, size_t s) {
    by_worker(work->worker, work->incarnation, latency(), [=, this] {
      Server& server = servers_[s];
      if (!server.is_up) return pull(work, s);
      if (work->is_void) return;
      if (work->ticket.generation < server.generation) return give_back(work);
      while (server.commit(work->ticket.step())) continue;
      work->versions[s] = server.ledger.version();
      if (++work->pulled < static_cast<int>(servers_.size())) return;
      schedule_.meetings > 0 ? meet(work, 0) : push_all(work);
    });
  }

  /// Gives its value, and again where no answer has come for long.
  void meet(const WorkPtr& work, int number) {
    by_worker(work->worker, work->incarnation, delay(1ms, 20ms) + latency(), [=, this] {
      if (work->met > number) return;
      by_worker(work->worker, work->incarnation, 2s, [=, this] { meet(work, number); });
      if (!servers_[0].is_up || chance(0.05)) return;
      const WorkTicket& ticket = work->ticket;
      double value = ticket.share + 1;
      const op::Piece piece{&value, 1, DType::float64};
      meeting_.give({ticket.generation, ticket.step(), number}, ticket.share,
                    text_of_pieces({&piece, 1}), [=, this](const std::optional<std::string>& sums) {
                      if (!chance(0.05)) take_sums(work, number, sums);
                    });
    });
  }

  void take_sums(const WorkPtr& work, int number, const std::optional<std::string>& sums) {
    const int w = work->worker;
    const uint64_t incarnation = work->incarnation;
    by_worker(w, incarnation, latency(), [=, this] {
      if (work->met > number) return;
      if (!sums) {
        work->met = schedule_.meetings;
        return give_back(work);
      }
      double sum = 0;
      const op::Piece piece{&sum, 1, DType::float64};
      read_pieces(*sums, {&piece, 1});
      EXPECT_EQ(sum, shares_ * (shares_ + 1) / 2.0);
      work->met = number + 1;
      work->met < schedule_.meetings ? meet(work, work->met) : push_all(work);
    });
  }

  void give_back(const WorkPtr& work) {
    work->is_void = true;
    chief_.give_back(work->worker, work->ticket);
    ask(work->worker, work->incarnation, work->is_beside);
  }

  void push_all(const WorkPtr& work) {
    for (size_t each = 0; each < servers_.size(); ++each) {
      push(work, each, delay(1ms, 50ms) * (work->worker + 1));
    }
  }

  void push(const WorkPtr& work, size_t s, Time after) {
    by_worker(work->worker, work->incarnation, after + latency(), [=, this] {
      Server& server = servers_[s];
      // What is not answered is sent again, and a message may come twice.
      if (!server.is_up || chance(0.05)) return push(work, s, 100ms);
      receive(work, s);
      if (chance(0.1)) at(latency(), [=, this] { receive(work, s); });
    });
  }

  void receive(const WorkPtr& work, size_t s) {
    Server& server = servers_[s];
    if (!server.is_up) return;
    const PushAnswer answer = server.ledger.admit(
        {work->worker, work->incarnation, work->sequence, work->ticket.number, work->versions[s]});
    if (answer.outcome == Outcome::applied) ++server.value;
    if (answer.outcome == Outcome::dropped && s == 0) ++dropped_;
    const int w = work->worker;
    const uint64_t incarnation = work->incarnation;
    if (answer.outcome == Outcome::refused) {
      return by_worker(w, incarnation, latency(), [=, this] { join(w); });
    }
    by_worker(w, incarnation, latency(), [=, this] {
      if (work->answered[s]) return;
      work->answered[s] = true;
      if (std::ranges::count(work->answered, false) > 0) return;
      if (!chief_.is_there(w, incarnation)) return join(w);
      chief_.finish(w, work->ticket);
      ask(w, incarnation, work->is_beside);
    });
  }

  void kill_worker() {
    const int w = pick(schedule_.workers);
    Worker& worker = workers_[static_cast<size_t>(w)];
    if (worker.is_up && chance(0.5)) {
      worker.stopped_until = now_ + delay(1s, 20s);
    } else if (worker.is_up) {
      worker.is_up = false;
      // Some never come back, but for the first one.
      if (w == 0 || chance(0.7)) at(delay(1s, 10s), [=, this] { start(w); });
    }
    at(delay(1s, 10s), [this] { kill_worker(); });
  }

  void kill_server() {
    Server& server = servers_[static_cast<size_t>(pick(schedule_.servers))];
    if (server.is_up) {
      server.is_up = false;
      at(delay(100ms, 10s), [&server, this] {
        come_back(server);
        server.is_up = true;
      });
    }
    if (++server_kills_ < 5) at(delay(1s, 10s), [this] { kill_server(); });
  }

  void come_back(Server& lost) {
    if (!lost.rules.synchronous) {
      lost.restore();
      chief_.reopen([&](int64_t ticket) { return !lost.ledger.has(ticket); });
      return;
    }
    // In step all servers go back to the same checkpoint.
    for (Server& server : servers_) server.restore();
    chief_.reopen([&](int64_t ticket) { return !lost.ledger.has(ticket); });
    for (Server& server : servers_) server.generation = chief_.generation();
    meeting_.clear(chief_.generation());
  }

  void save() {
    if (servers_[0].rules.synchronous) {
      const bool all_up = std::ranges::all_of(servers_, &Server::is_up);
      for (Server& server : servers_) {
        if (!all_up) break;
        while (server.commit(chief_.whole_steps())) continue;
        server.save();
      }
    } else {
      Server& server = servers_[static_cast<size_t>(pick(schedule_.servers))];
      if (server.is_up) server.save();
    }
    at(delay(100ms, 2s), [this] { save(); });
  }

  const Schedule schedule_;
  const int shares_;
  std::mt19937_64 random_;
  TicketTable chief_;
  StepMeeting meeting_;
  std::vector<Server> servers_;
  std::vector<Worker> workers_;
  std::priority_queue<Event> events_;
  int64_t events_made_ = 0;
  Time now_{};
  int64_t dropped_ = 0;
  int server_kills_ = 0;
};

/// A schedule of each kind in turn.
Schedule schedule_of(uint64_t seed) {
  constexpr int64_t kBounds[] = {0, 1, 2, 4, unbounded};
  return {.seed = seed,
          .workers = 1 + static_cast<int>(seed % 4),
          .servers = 1 + static_cast<int>(seed / 4 % 3),
          .staleness = kBounds[seed / 12 % 5]};
}

const auto kSchedules = static_cast<uint64_t>(harness::rounds(2000, 50000));

TEST(ParameterServerSchedules, EveryTicketIsAppliedOnceWhereNobodyDies) {
  for (uint64_t seed = 0; seed < kSchedules && !testing::Test::HasFailure(); ++seed) {
    Simulation simulation(schedule_of(seed));
    simulation.run();
    simulation.check_values();
  }
}

TEST(ParameterServerSchedules, EveryTicketIsAppliedOnceAcrossDeathsOfWorkers) {
  for (uint64_t seed = 0; seed < kSchedules && !testing::Test::HasFailure(); ++seed) {
    Schedule schedule = schedule_of(seed);
    schedule.kills_workers = true;
    Simulation simulation(schedule);
    simulation.run();
    simulation.check_values();
  }
}

TEST(ParameterServerSchedules, EveryTicketIsAppliedOnceAcrossDeathsOfServers) {
  for (uint64_t seed = 0; seed < kSchedules && !testing::Test::HasFailure(); ++seed) {
    Schedule schedule = schedule_of(seed);
    schedule.kills_workers = seed % 2 == 0;
    schedule.kills_servers = true;
    Simulation simulation(schedule);
    simulation.run();
    simulation.check_values();
  }
}

/// Shares wait for each other in the middle of a step, so those of workers that are gone are done
/// by others beside their own.
TEST(ParameterServerSchedules, WhereSharesMeetEveryTicketIsAppliedOnceWhoeverDies) {
  for (uint64_t seed = 0; seed < kSchedules / 8 && !testing::Test::HasFailure(); ++seed) {
    Simulation simulation({.seed = seed,
                           .workers = 2 + static_cast<int>(seed % 3),
                           .servers = 1 + static_cast<int>(seed / 3 % 3),
                           .staleness = 0,
                           .kills_workers = true,
                           .kills_servers = seed % 2 == 0,
                           .meetings = 2});
    simulation.run();
    simulation.check_values();
  }
}

/// While a worker computes, others finish what they had begun: each was at most k behind it then,
/// and is at most k + 1 ahead of it now.
TEST(ParameterServerSchedules, ABoundKeepsUpdatesFromBeingStalerThanItAllows) {
  for (uint64_t seed = 0; seed < kSchedules && !testing::Test::HasFailure(); ++seed) {
    const Schedule schedule = schedule_of(seed);
    if (schedule.staleness == unbounded) continue;
    Simulation simulation(schedule);
    simulation.run();
    const int64_t most =
        schedule.staleness == 0 ? 0 : (schedule.workers - 1) * (2 * schedule.staleness + 1);
    EXPECT_LE(StalenessStatistics::largest(simulation.staleness()), most) << "seed " << seed;
  }
}

TEST(ParameterServerSchedules, UpdatesBeyondTheLimitAreDroppedAndCount) {
  int64_t dropped = 0;
  for (uint64_t seed = 0; seed < 200 && !testing::Test::HasFailure(); ++seed) {
    Simulation simulation({.seed = seed, .workers = 4, .rules = {.drop_older_than = 2}});
    simulation.run();
    simulation.check_values(simulation.dropped());
    dropped += simulation.dropped();
  }
  EXPECT_GT(dropped, 0);
}

}  // namespace
}  // namespace tandem::distribute
