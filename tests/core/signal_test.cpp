#include "core/signal.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tandem::core {
namespace {

using namespace std::chrono_literals;

Clock::time_point far() { return Clock::now() + 60s; }

TEST(Signal, TheValueCountsTheAdvances) {
  Signal signal;
  EXPECT_EQ(signal.value(), 0u);
  signal.advance();
  signal.advance();
  EXPECT_EQ(signal.value(), 2u);
}

TEST(Signal, AnAdvanceBeforeTheWaitIsNotMissed) {
  Signal signal;
  const uint32_t seen = signal.value();
  signal.advance();
  EXPECT_TRUE(signal.wait_past(seen, far()));
}

TEST(Signal, WhatHasHappenedCountsAfterTheDeadlineToo) {
  Signal signal;
  signal.advance();
  EXPECT_TRUE(signal.wait_past(0, Clock::now() - 1s));
}

TEST(Signal, AWaitWithoutAnAdvanceEndsAtTheDeadline) {
  const Signal signal;
  const auto deadline = Clock::now() + 5ms;
  EXPECT_FALSE(signal.wait_past(0, deadline));
  EXPECT_GE(Clock::now(), deadline);
}

TEST(Signal, ADeadlineThatHasPassedEndsTheWaitAtOnce) {
  const Signal signal;
  EXPECT_FALSE(signal.wait_past(0, Clock::now() - 1s));
}

TEST(Signal, EachAdvanceNeedsAWaitOfItsOwn) {
  Signal signal;
  signal.advance();
  EXPECT_TRUE(signal.wait_past(0, far()));
  EXPECT_FALSE(signal.wait_past(signal.value(), Clock::now() + 1ms));
}

TEST(Signal, AWaiterThatHasParkedIsWoken) {
  Signal signal;
  bool arrived = false;
  std::thread waiter([&] { arrived = signal.wait_past(0, far()); });
  std::this_thread::sleep_for(20 * kSpinTime);
  signal.advance();
  waiter.join();
  EXPECT_TRUE(arrived);
}

TEST(Signal, EveryWaiterIsWoken) {
  Signal signal;
  std::atomic<int> arrived{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] { arrived += signal.wait_past(0, far()); });
  }
  std::this_thread::sleep_for(5 * kSpinTime);
  signal.advance();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(arrived, 4);
}

TEST(Signal, WhatIsWrittenBeforeAnAdvanceIsSeenAfterTheWait) {
  constexpr uint32_t kRounds = 1000;
  Signal there;
  Signal back;
  uint32_t written = 0;
  uint32_t wrong = 0;
  std::thread reader([&] {
    for (uint32_t round = 0; round < kRounds; ++round) {
      if (!there.wait_past(round, far())) return;
      wrong += written != round + 1;
      back.advance();
    }
  });
  for (uint32_t round = 0; round < kRounds; ++round) {
    written = round + 1;
    there.advance();
    ASSERT_TRUE(back.wait_past(round, far()));
  }
  reader.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(Signal, WaitersParkAtOnceWhereThreadsOutnumberCores) {
  Signal signal;
  EXPECT_TRUE(AtWork::cores_suffice());
  {
    const AtWork crowd(available_cores() + 1);
    EXPECT_FALSE(AtWork::cores_suffice());
    EXPECT_FALSE(signal.wait_past(0, Clock::now() + 1ms));
    std::thread other([&] { signal.advance(); });
    EXPECT_TRUE(signal.wait_past(0, far()));
    other.join();
  }
  EXPECT_TRUE(AtWork::cores_suffice());
}

}  // namespace
}  // namespace tandem::core
