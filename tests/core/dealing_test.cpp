#include "core/dealing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

namespace tandem::core {
namespace {

using namespace std::chrono_literals;

/// A machine on which time passes when jobs run. `rate_of` says how much work so many threads get
/// done at a time, as a multiple of one undisturbed thread's.
class Machine {
 public:
  using RateOf = std::function<double(int threads)>;

  Machine(int threads, std::chrono::nanoseconds work, RateOf rate_of)
      : levels_(Dealing::halvings(threads)), work_(work), rate_of_(std::move(rate_of)) {}

  void set_rate(RateOf rate_of) { rate_of_ = std::move(rate_of); }

  /// The number of threads that play most of the time from now on.
  int usual_threads(std::chrono::nanoseconds duration) {
    std::map<int, Dealing::Duration> times;
    run(duration, [&](int threads, Dealing::Duration elapsed) { times[threads] += elapsed; });
    return std::ranges::max_element(times, {}, [](const auto& entry) { return entry.second; })
        ->first;
  }

  /// The share of the time in which so many threads play.
  double share_of(int threads, std::chrono::nanoseconds duration) {
    Dealing::Duration own{0};
    run(duration, [&](int playing, Dealing::Duration elapsed) {
      if (playing == threads) own += elapsed;
    });
    return static_cast<double>(own.count()) / static_cast<double>(duration.count());
  }

  /// The share of the jobs that is measured.
  double measured_share(std::chrono::nanoseconds duration) {
    int jobs = 0;
    int measured = 0;
    for (const auto end = now_ + duration; now_ < end; ++jobs) measured += play().measure ? 1 : 0;
    return static_cast<double>(measured) / jobs;
  }

 private:
  template <class Visit>
  void run(std::chrono::nanoseconds duration, Visit visit) {
    for (const auto end = now_ + duration; now_ < end;) {
      const auto before = now_;
      const int threads = levels_[play().level];
      visit(threads, now_ - before);
    }
  }

  Dealing::Choice play() {
    const Dealing::Choice choice = dealing_.next(now_);
    const double rate = rate_of_(levels_[choice.level]);
    const Dealing::Duration elapsed(
        static_cast<int64_t>(static_cast<double>(work_.count()) / rate));
    now_ += elapsed;
    if (choice.measure) dealing_.add(elapsed, work_, now_);
    return choice;
  }

  const std::vector<int> levels_;
  const std::chrono::nanoseconds work_;
  RateOf rate_of_;
  Dealing dealing_{levels_};
  Dealing::Time now_{1h};
};

double undisturbed(int threads) { return 0.9 * threads; }

/// One of two cores is another's half of the time, and everybody waits for who is on it.
double one_core_shared(int threads) { return threads == 1 ? 1 : 0.8; }

TEST(Dealing, ALevelHasHalfTheHostsOfTheOneBefore) {
  EXPECT_EQ(Dealing::halvings(1), std::vector<int>({1}));
  EXPECT_EQ(Dealing::halvings(2), std::vector<int>({2, 1}));
  EXPECT_EQ(Dealing::halvings(12), std::vector<int>({12, 6, 3, 2, 1}));
}

TEST(Dealing, AllHostsPlayWhereNothingDisturbsThem) {
  for (int threads : {1, 2, 12}) {
    Machine machine(threads, 1ms, undisturbed);
    EXPECT_GE(machine.share_of(threads, 30s), 1);
  }
}

TEST(Dealing, LittleIsMeasuredInTheSteadyState) {
  Machine machine(2, 1ms, undisturbed);
  EXPECT_LT(machine.measured_share(30s), 0.08);
  EXPECT_GT(machine.measured_share(30s), 0);
}

TEST(Dealing, OneHostIsLeftWhereTwoBringLess) {
  Machine machine(2, 1ms, one_core_shared);
  EXPECT_EQ(machine.usual_threads(1s), 1);
  EXPECT_GE(machine.share_of(1, 30s), 0.98);
}

TEST(Dealing, LongJobsFindTheirNumberInAFewRuns) {
  Machine machine(2, 250ms, one_core_shared);
  machine.usual_threads(1s);
  EXPECT_GE(machine.share_of(1, 60s), 0.9);
}

TEST(Dealing, AllHostsAreBackOnceTheDisturbanceIsOver) {
  Machine machine(2, 1ms, one_core_shared);
  machine.usual_threads(30s);
  machine.set_rate(undisturbed);
  machine.usual_threads(4s);
  EXPECT_GE(machine.share_of(2, 10s), 1);
}

TEST(Dealing, AnotherDisturbanceIsSeenAtOnceAfterAQuietTime) {
  Machine machine(2, 1ms, undisturbed);
  machine.usual_threads(60s);
  machine.set_rate(one_core_shared);
  machine.usual_threads(400ms);
  EXPECT_GE(machine.share_of(1, 1s), 0.7);
}

/// A disturbance that comes and goes faster than the windows looks like progress at times.
TEST(Dealing, TrialsThatLookGoodForAMomentBecomeRare) {
  int window = 0;
  Machine machine(2, 20ms,
                  [&](int threads) { return threads == 1 ? 1 : (++window % 2 == 0 ? 1.6 : 0.4); });
  machine.usual_threads(10s);
  EXPECT_GE(machine.share_of(1, 60s), 0.9);
}

/// Work that only one thread can do leaves the others waiting, and a second thread does no harm.
TEST(Dealing, HalfSerialWorkKeepsItsHosts) {
  Machine machine(2, 1ms, [](int threads) { return threads == 1 ? 1 : 1.33; });
  EXPECT_GE(machine.share_of(2, 30s), 0.98);
}

/// The rate of many threads on partly serial work is below half of their number, so halves are
/// tried, and given up again.
TEST(Dealing, PartlySerialWorkOnManyHostsKeepsThem) {
  const auto with_serial_fifth = [](int threads) { return 1 / (0.2 + 0.8 / threads); };
  Machine machine(16, 1ms, with_serial_fifth);
  EXPECT_EQ(machine.usual_threads(30s), 16);
  EXPECT_GE(machine.share_of(16, 30s), 0.9);
}

TEST(Dealing, PartlySerialWorkGetsItsHostsBackAfterADisturbance) {
  const auto with_serial_fifth = [](int threads) { return 1 / (0.2 + 0.8 / threads); };
  Machine machine(16, 1ms, [&](int threads) { return with_serial_fifth(std::min(threads, 3)); });
  EXPECT_LE(machine.usual_threads(30s), 4);
  machine.set_rate(with_serial_fifth);
  machine.usual_threads(30s);
  EXPECT_GE(machine.share_of(16, 30s), 0.9);
}

/// A thread that others keep from its core for a while makes its window worthless, whichever it is.
TEST(Dealing, OneUnluckyWindowDoesNotDecideForLong) {
  uint64_t turn = 0;
  Machine machine(2, 1ms, [&](int threads) {
    const uint64_t mixed = ++turn / 5 * 0x9E3779B97F4A7C15u;  // Others have turns of five jobs,
    const bool is_free = (mixed >> 60) % 2 == 0;              // half of the time.
    return (threads == 1 ? 1 : 0.6) * (is_free ? 1 : 0.05);
  });
  machine.usual_threads(5s);
  EXPECT_GE(machine.share_of(1, 120s), 0.8);
}

TEST(Dealing, TwoTeamsOnTwoCoresSettleOnACoreEach) {
  int threads[] = {2, 2};
  const auto rate = [&](int team, int own) {
    threads[team] = own;
    const int all = threads[0] + threads[1];
    return all <= 2 ? own : (own == 1 ? 0.67 : 0.7);
  };
  Machine teams[] = {{2, 1ms, [&](int own) { return rate(0, own); }},
                     {2, 1ms, [&](int own) { return rate(1, own); }}};
  double alone[] = {0, 0};
  constexpr int kTurns = 10'000;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int team : {0, 1}) alone[team] += teams[team].share_of(1, 3ms);
  }
  for (int team : {0, 1}) EXPECT_GE(alone[team] / kTurns, 0.95);
}

TEST(Dealing, WorkThatIsTooSmallToShareIsNotShared) {
  Machine machine(16, 1ms, [](int threads) { return threads == 1 ? 1 : 1.05 - 0.02 * threads; });
  EXPECT_EQ(machine.usual_threads(30s), 1);
}

TEST(Dealing, SomeCoresAreLeftToOthersAndTheRestIsUsed) {
  Machine machine(8, 1ms, [](int threads) { return threads <= 4 ? 0.95 * threads : 2.5; });
  machine.usual_threads(5s);
  EXPECT_GE(machine.share_of(4, 30s), 0.9);
}

}  // namespace
}  // namespace tandem::core
