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
  explicit FunctionJob(std::function<void(TeamThread&)> f) : f_(std::move(f)) {}
  void play(TeamThread& thread) override { f_(thread); }

 private:
  const std::function<void(TeamThread&)> f_;
};

std::shared_ptr<Job> job(std::function<void(TeamThread&)> f) {
  return std::make_shared<FunctionJob>(std::move(f));
}

std::vector<Subteam> replicas(int count, int threads = 1) {
  std::vector<Subteam> subteams;
  for (int i = 0; i < count; ++i) subteams.push_back({threads, "replica " + std::to_string(i)});
  return subteams;
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
      team.run(job([&](TeamThread& thread) {
                 for (const Members& members : thread.members()) {
                   for (int i = 0; i < members.count; ++i) {
                     ++played[static_cast<size_t>(members.global + i * members.stride)];
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
  const int threads = std::min(2, available_cores());
  std::atomic<int> sum{0};
  team.run(job([&](TeamThread& thread) { sum += thread.playing_threads(); }), 10s);
  EXPECT_EQ(sum, threads * threads);
}

TEST(Team, FewerHostsPlayAllMembers) {
  for (const auto& subteams : {replicas(1, 4), replicas(3, 2), replicas(4), replicas(2, 3)}) {
    int members = 0;
    for (const Subteam& subteam : subteams) members += subteam.members;
    Team alone(subteams, 1);
    std::vector<int> played(static_cast<size_t>(members));
    alone.run(job([&](TeamThread& thread) {
                EXPECT_EQ(thread.playing_threads(), 1);
                EXPECT_EQ(thread.members().size(), subteams.size());
                for (const Members& members : thread.members()) {
                  EXPECT_EQ(members.count, members.size);
                  for (int i = 0; i < members.count; ++i) {
                    ++played[static_cast<size_t>(members.global + i * members.stride)];
                  }
                  thread.subteam_barrier(members);
                }
                thread.team_barrier();
              }),
              10s);
    EXPECT_EQ(played, std::vector<int>(static_cast<size_t>(members), 1));
  }
}

/// The second thread does next to nothing, and all wait for it: as if it had to share its core.
TEST(Team, AHostThatKeepsTheOthersWaitingIsDoneWithout) {
  if (available_cores() == 1) GTEST_SKIP() << "There is one thread at most.";
  Team team({{2, "replica 0"}});
  const auto slow = job([](TeamThread& thread) {
    if (thread.index() == 1) std::this_thread::sleep_for(1ms);
    thread.team_barrier();
  });
  std::atomic<int> threads{0};
  const auto count = job([&](TeamThread& thread) { threads = thread.playing_threads(); });
  const auto give_up = Clock::now() + 30s;
  do {
    team.run(slow, 10s);
    team.run(count, 10s);
  } while (threads > 1 && Clock::now() < give_up);
  EXPECT_EQ(threads, 1);
  EXPECT_FALSE(team.awake());
}

TEST(Team, AJobThatMayWaitIsPlayedByAllHosts) {
  class Waiting final : public Job {
   public:
    void play(TeamThread& thread) override {
      threads = thread.playing_threads();
      if (thread.index() == 1) std::this_thread::sleep_for(5ms);
    }
    bool may_wait() const override { return true; }
    std::atomic<int> threads{0};
  };
  Team team({{2, "replica 0"}});
  const auto waiting = std::make_shared<Waiting>();
  for (int i = 0; i < 50; ++i) {
    team.run(waiting, 10s);
    ASSERT_EQ(waiting->threads, std::min(2, available_cores()));
  }
}

TEST(Team, ThreadsThatHaveLongWaitedAreNotAwake) {
  Team alone(replicas(1));
  alone.run(job([](TeamThread&) {}), 10s);
  EXPECT_FALSE(alone.awake());

  Team team({{2, "replica 0"}});
  team.run(job([](TeamThread&) {}), 10s);
  const auto give_up = Clock::now() + 10s;
  while (team.awake() && Clock::now() < give_up) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(team.awake());
}

TEST(Team, ThreadsNeverOutnumberCores) {
  Team team(replicas(16));
  std::atomic<int> threads{0};
  team.run(job([&](TeamThread&) { ++threads; }), 10s);
  EXPECT_LE(threads, available_cores());
}

TEST(Team, WhatIsWrittenBeforeABarrierIsSeenAfterIt) {
  for (int count : {2, 3, 4}) {
    Team team(replicas(count));
    std::vector<int> written(static_cast<size_t>(count), -1);
    std::atomic<int> wrong{0};
    team.run(job([&](TeamThread& thread) {
               for (int round = 0; round < 2000; ++round) {
                 for (const Members& members : thread.members()) {
                   written[static_cast<size_t>(members.global)] = round;
                 }
                 thread.team_barrier();
                 for (int value : written) wrong += value != round;
                 thread.team_barrier();
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
  team.run(job([&](TeamThread& thread) {
             for (const Members& members : thread.members()) {
               auto& own = written[static_cast<size_t>(members.subteam)];
               for (int round = 0; round < 500; ++round) {
                 for (int i = 0; i < members.count; ++i) {
                   own[static_cast<size_t>(members.rank + i * members.stride)] = round;
                 }
                 thread.subteam_barrier(members);
                 wrong += own[0] != round || own[1] != round;
                 thread.subteam_barrier(members);
               }
             }
           }),
           10s);
  EXPECT_EQ(wrong, 0);
}

TEST(Team, AnErrorNamesTheSquadAndTheTeamGoesOn) {
  Team team(replicas(2));
  const auto failing = job([](TeamThread& thread) {
    for (const Members& members : thread.members()) {
      thread.playing(members);
      if (members.subteam == 1) throw InvalidArgument("bad rows");
    }
    thread.team_barrier();
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(error_of<InvalidArgument>(team, failing, 10s), "replica 1: bad rows");
    EXPECT_FALSE(team.broken());
    std::atomic<int> played{0};
    team.run(job([&](TeamThread& thread) {
               played += static_cast<int>(thread.members().size());
               thread.team_barrier();
             }),
             10s);
    EXPECT_EQ(played, 2);
  }
}

TEST(Team, AnyExceptionIsNamed) {
  Team team(replicas(2));
  const auto failing = job([](TeamThread& thread) {
    if (thread.index() == 1) throw std::runtime_error("out of paper");
    thread.team_barrier();
  });
  EXPECT_EQ(error_of<Unavailable>(team, failing, 10s), "replica 1: out of paper");
}

TEST(Team, OneWhoNeverArrivesIsNamedWithinTheDeadline) {
  const harness::Trap trap;
  Team team(replicas(2));
  const auto stuck = job([trap](TeamThread& thread) {
    for (const Members& members : thread.members()) {
      thread.playing(members);
      thread.doing("matmul");
      if (members.subteam == 1) trap.enter();
    }
    trap.wait_until_occupied();
    thread.team_barrier();
  });
  EXPECT_EQ(error_of<DeadlineExceeded>(team, stuck, 100ms),
            "replica 1 (last seen in matmul) did not arrive within 0.1 s");
  EXPECT_TRUE(team.broken());
  Team next(replicas(2));
  next.run(job([](TeamThread& thread) { thread.team_barrier(); }), 10s);
  trap.open();
}

/// The caller that waits for a stuck thread must hear of it, not only of the error before.
TEST(Team, OneWhoIsStuckWhileAnotherFailsIsNamedToo) {
  const harness::Trap trap;
  Team team(replicas(2));
  const auto failing = job([trap](TeamThread& thread) {
    for (const Members& members : thread.members()) {
      thread.playing(members);
      thread.doing("matmul");
      if (members.subteam == 1) trap.enter();
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
  const auto stuck = job([trap](TeamThread& thread) {
    thread.doing("its input");
    if (thread.index() == 1) trap.enter();
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
  for (int i = 0; i < 100; ++i)
    team.run(job([](TeamThread& thread) { thread.team_barrier(); }), 10s);
  const double before = cpu_seconds();
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(cpu_seconds() - before, 0.1);
}

}  // namespace
}  // namespace tandem::core
