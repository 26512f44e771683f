#include "core/team.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>
#include <thread>

#include "harness/threads.h"
#include "tandem/error.h"

namespace tandem::core {
namespace {

using namespace std::chrono_literals;

class FunctionJob final : public Job {
 public:
  explicit FunctionJob(std::function<void(Host&)> f) : f_(std::move(f)) {}
  void play(Host& host) override { f_(host); }

 private:
  const std::function<void(Host&)> f_;
};

std::shared_ptr<Job> job(std::function<void(Host&)> f) {
  return std::make_shared<FunctionJob>(std::move(f));
}

std::vector<Squad> replicas(int count, int threads = 1) {
  std::vector<Squad> squads;
  for (int i = 0; i < count; ++i) squads.push_back({threads, "replica " + std::to_string(i)});
  return squads;
}

/// What run() throws, as text.
template <class Error>
std::string error_of(Team& team, const std::shared_ptr<Job>& work,
                     std::chrono::nanoseconds deadline) {
  try {
    team.run(work, deadline);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Team, EveryMemberPlaysOnce) {
  for (int count : {1, 2, 3, 4, 7}) {
    Team team(replicas(count));
    std::vector<std::atomic<int>> played(static_cast<size_t>(count));
    for (int run = 0; run < 100; ++run) {
      team.run(job([&](Host& host) {
                 for (const Lot& lot : host.lots()) {
                   for (int i = 0; i < lot.count; ++i) {
                     ++played[static_cast<size_t>(lot.global + i * lot.stride)];
                   }
                 }
               }),
               10s);
    }
    for (const auto& times : played) EXPECT_EQ(times, 100);
  }
}

TEST(Team, EveryHostKnowsHowManyThereAre) {
  Team team({{2, "replica 0"}});
  const int hosts = std::min(2, available_cores());
  std::atomic<int> sum{0};
  team.run(job([&](Host& host) { sum += host.hosts(); }), 10s);
  EXPECT_EQ(sum, hosts * hosts);
}

TEST(Team, FewerHostsPlayAllMembers) {
  for (const auto& squads : {replicas(1, 4), replicas(3, 2), replicas(4), replicas(2, 3)}) {
    int members = 0;
    for (const Squad& squad : squads) members += squad.threads;
    Team alone(squads, 1);
    std::vector<int> played(static_cast<size_t>(members));
    alone.run(job([&](Host& host) {
                EXPECT_EQ(host.hosts(), 1);
                EXPECT_EQ(host.lots().size(), squads.size());
                for (const Lot& lot : host.lots()) {
                  EXPECT_EQ(lot.count, lot.size);
                  for (int i = 0; i < lot.count; ++i) {
                    ++played[static_cast<size_t>(lot.global + i * lot.stride)];
                  }
                  host.squad_barrier(lot);
                }
                host.team_barrier();
              }),
              10s);
    EXPECT_EQ(played, std::vector<int>(static_cast<size_t>(members), 1));
  }
}

/// The second host does next to nothing, and all wait for it: as if it had to share its core.
TEST(Team, AHostThatKeepsTheOthersWaitingIsDoneWithout) {
  if (available_cores() == 1) GTEST_SKIP() << "There is one host at most.";
  Team team({{2, "replica 0"}});
  const auto slow = job([](Host& host) {
    if (host.index() == 1) std::this_thread::sleep_for(1ms);
    host.team_barrier();
  });
  std::atomic<int> hosts{0};
  const auto count = job([&](Host& host) { hosts = host.hosts(); });
  const auto give_up = Clock::now() + 30s;
  do {
    team.run(slow, 10s);
    team.run(count, 10s);
  } while (hosts > 1 && Clock::now() < give_up);
  EXPECT_EQ(hosts, 1);
  EXPECT_FALSE(team.awake());
}

TEST(Team, AJobThatMayWaitIsPlayedByAllHosts) {
  class Waiting final : public Job {
   public:
    void play(Host& host) override {
      hosts = host.hosts();
      if (host.index() == 1) std::this_thread::sleep_for(5ms);
    }
    bool may_wait() const override { return true; }
    std::atomic<int> hosts{0};
  };
  Team team({{2, "replica 0"}});
  const auto waiting = std::make_shared<Waiting>();
  for (int i = 0; i < 50; ++i) {
    team.run(waiting, 10s);
    ASSERT_EQ(waiting->hosts, std::min(2, available_cores()));
  }
}

TEST(Team, ThreadsThatHaveLongWaitedAreNotAwake) {
  Team alone(replicas(1));
  alone.run(job([](Host&) {}), 10s);
  EXPECT_FALSE(alone.awake());

  Team team({{2, "replica 0"}});
  team.run(job([](Host&) {}), 10s);
  const auto give_up = Clock::now() + 10s;
  while (team.awake() && Clock::now() < give_up) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(team.awake());
}

TEST(Team, ThreadsNeverOutnumberCores) {
  Team team(replicas(16));
  std::atomic<int> hosts{0};
  team.run(job([&](Host&) { ++hosts; }), 10s);
  EXPECT_LE(hosts, available_cores());
}

TEST(Team, WhatIsWrittenBeforeABarrierIsSeenAfterIt) {
  for (int count : {2, 3, 4}) {
    Team team(replicas(count));
    std::vector<int> written(static_cast<size_t>(count), -1);
    std::atomic<int> wrong{0};
    team.run(job([&](Host& host) {
               for (int round = 0; round < 2000; ++round) {
                 for (const Lot& lot : host.lots()) {
                   written[static_cast<size_t>(lot.global)] = round;
                 }
                 host.team_barrier();
                 for (int value : written) wrong += value != round;
                 host.team_barrier();
               }
             }),
             10s);
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Team, SquadsMeetAmongThemselves) {
  Team team(replicas(2, 2));
  std::vector<std::vector<int>> written(2, std::vector<int>(2, -1));
  std::atomic<int> wrong{0};
  team.run(job([&](Host& host) {
             for (const Lot& lot : host.lots()) {
               auto& own = written[static_cast<size_t>(lot.squad)];
               for (int round = 0; round < 500; ++round) {
                 for (int i = 0; i < lot.count; ++i) {
                   own[static_cast<size_t>(lot.rank + i * lot.stride)] = round;
                 }
                 host.squad_barrier(lot);
                 wrong += own[0] != round || own[1] != round;
                 host.squad_barrier(lot);
               }
             }
           }),
           10s);
  EXPECT_EQ(wrong, 0);
}

TEST(Team, AnErrorNamesTheSquadAndTheTeamGoesOn) {
  Team team(replicas(2));
  const auto failing = job([](Host& host) {
    for (const Lot& lot : host.lots()) {
      host.playing(lot);
      if (lot.squad == 1) throw InvalidArgument("bad rows");
    }
    host.team_barrier();
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(error_of<InvalidArgument>(team, failing, 10s), "replica 1: bad rows");
    EXPECT_FALSE(team.broken());
    std::atomic<int> played{0};
    team.run(job([&](Host& host) {
               played += static_cast<int>(host.lots().size());
               host.team_barrier();
             }),
             10s);
    EXPECT_EQ(played, 2);
  }
}

TEST(Team, AnyExceptionIsNamed) {
  Team team(replicas(2));
  const auto failing = job([](Host& host) {
    if (host.index() == 1) throw std::runtime_error("out of paper");
    host.team_barrier();
  });
  EXPECT_EQ(error_of<Unavailable>(team, failing, 10s), "replica 1: out of paper");
}

TEST(Team, OneWhoNeverArrivesIsNamedWithinTheDeadline) {
  const harness::Trap trap;
  Team team(replicas(2));
  const auto stuck = job([trap](Host& host) {
    for (const Lot& lot : host.lots()) {
      host.playing(lot);
      host.doing("matmul");
      if (lot.squad == 1) trap.enter();
    }
    trap.wait_until_occupied();
    host.team_barrier();
  });
  EXPECT_EQ(error_of<DeadlineExceeded>(team, stuck, 100ms),
            "replica 1 (last seen in matmul) did not arrive within 0.1 s");
  EXPECT_TRUE(team.broken());
  Team next(replicas(2));
  next.run(job([](Host& host) { host.team_barrier(); }), 10s);
  trap.open();
}

/// The caller that waits for a stuck thread must hear of it, not only of the error before.
TEST(Team, OneWhoIsStuckWhileAnotherFailsIsNamedToo) {
  const harness::Trap trap;
  Team team(replicas(2));
  const auto failing = job([trap](Host& host) {
    for (const Lot& lot : host.lots()) {
      host.playing(lot);
      host.doing("matmul");
      if (lot.squad == 1) trap.enter();
      trap.wait_until_occupied();
      throw InvalidArgument("bad rows");
    }
  });
  EXPECT_EQ(
      error_of<DeadlineExceeded>(team, failing, 100ms),
      "replica 0: bad rows; then replica 1 (last seen in matmul) did not arrive within 0.1 s");
  EXPECT_TRUE(team.broken());
  trap.open();
}

TEST(Team, OneWhoIsLateForTheEndIsNamedToo) {
  const harness::Trap trap;
  Team team(replicas(2));
  const auto stuck = job([trap](Host& host) {
    host.doing("its input");
    if (host.index() == 1) trap.enter();
    trap.wait_until_occupied();
  });
  EXPECT_EQ(error_of<DeadlineExceeded>(team, stuck, 50ms),
            "replica 1 (last seen in its input) did not arrive within 0.05 s");
  trap.open();
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(Team, IdleThreadsBurnNoCore) {
  Team team(replicas(4));
  for (int i = 0; i < 100; ++i) team.run(job([](Host& host) { host.team_barrier(); }), 10s);
  const double before = cpu_seconds();
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(cpu_seconds() - before, 0.1);
}

}  // namespace
}  // namespace tandem::core
