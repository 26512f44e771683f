/// What the coordinator decides when ranks wait for each other in vain, and whom it lets in when
/// many come at once. The ranks here are connections by which the tests say what ranks would.
#include "cluster/coordinator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "cluster/member.h"
#include "cluster/stranger.h"

namespace tandem::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr int kMostPending = 64;

std::optional<Verdict> wait_for_verdict(const Coordinator& coordinator,
                                        Clock::duration patience = kPatience) {
  const auto deadline = Clock::now() + patience;
  while (!coordinator.verdict() && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  return coordinator.verdict();
}

/// Some ranks that have met, and their lines for heartbeats.
class Ranks {
 public:
  explicit Ranks(int size)
      : coordinator({.listen = "127.0.0.1:0",
                     .cluster = "c",
                     .size = size,
                     .secret = kSecret,
                     .log = [](const std::string&) {}}) {
    for (int rank = 0; rank < size; ++rank) {
      lines.push_back(Stranger::connect(coordinator.port()));
      prove(*lines.back(), {"c", "join", rank, size, "", ""});
    }
    for (const auto& line : lines) EXPECT_EQ(line->hear().type, FrameType::welcome);
    for (int rank = 0; rank < size; ++rank) {
      beats.push_back(Stranger::connect(coordinator.port()));
      prove(*beats.back(), {"c", "beat 1", rank, size, "", ""});
    }
  }
  ~Ranks() {
    for (const auto& line : lines) line->leave();
    for (const auto& line : beats) line->leave();
  }

  void beat(int rank, const std::string& waits_for = "", const std::string& exchange = "0",
            const std::string& signature = "") {
    beats[static_cast<size_t>(rank)]->send(
        {FrameType::beat, {"the step", "7", "0", waits_for, exchange, signature}});
  }
  void gather(int rank, const std::string& name) {
    lines[static_cast<size_t>(rank)]->send({FrameType::text, {"1", name, "words", "1"}});
  }
  void leave(int rank) { lines[static_cast<size_t>(rank)]->send({FrameType::leaving, {}}); }

  Coordinator coordinator;
  std::vector<std::shared_ptr<Stranger>> lines;
  std::vector<std::shared_ptr<Stranger>> beats;
};

TEST(Coordinator, WhoGathersHearsOfARankThatHasEnded) {
  Ranks ranks(3);
  ranks.gather(0, "fingerprint");
  ranks.leave(2);
  const auto verdict = wait_for_verdict(ranks.coordinator);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, "Unavailable");
  EXPECT_EQ(verdict->text,
            "rank 2 (worker 2, h, process 1) has ended its part, and rank 0 (worker 0, h, process "
            "1) in gathering 'fingerprint' waits for it");
}

TEST(Coordinator, WhoWaitsInAnExchangeHearsOfARankThatHasEnded) {
  Ranks ranks(3);
  ranks.leave(1);
  const auto end = Clock::now() + kPatience;
  while (Clock::now() < end && !ranks.coordinator.verdict()) {
    ranks.beat(0, "all-reduce #5 'x', for rank 1, 2", "5", "all-reduce");
    ranks.beat(2, "all-reduce #5 'x', for rank 0", "5", "all-reduce");
    std::this_thread::sleep_for(milliseconds(100));
  }
  const auto verdict = ranks.coordinator.verdict();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, "Unavailable");
  EXPECT_EQ(verdict->text,
            "rank 1 (worker 1, h, process 1) has ended its part, and rank 0 in all-reduce #5 'x' "
            "waits for it");
}

TEST(Coordinator, RanksThatWaitForEachOtherInDifferentWaysAreToldSo) {
  Ranks ranks(3);
  ranks.gather(0, "fingerprint");
  const std::string waits = "all-reduce #5 'dense/kernel', for rank 0";
  const auto beat_for = [&](Clock::duration time, bool third_waits) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end && !ranks.coordinator.verdict()) {
      ranks.beat(1, waits, "5", "all-reduce");
      third_waits ? ranks.beat(2, waits, "5", "all-reduce") : ranks.beat(2);
      std::this_thread::sleep_for(milliseconds(100));
    }
  };
  // While one of them computes it may still come.
  beat_for(milliseconds(2500), false);
  EXPECT_FALSE(ranks.coordinator.verdict());
  beat_for(kPatience, true);
  const auto verdict = ranks.coordinator.verdict();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, "FailedPrecondition");
  EXPECT_EQ(verdict->text,
            "the ranks do not do the same: rank 1 (worker 1, h, process 1) waits in " + waits +
                ", and rank 0 (worker 0, h, process 1) in gathering 'fingerprint'; each call of "
                "fit, evaluate, predict, save and restore is one of all ranks");
}

std::vector<std::shared_ptr<Stranger>> strangers_at(int port) {
  std::vector<std::shared_ptr<Stranger>> strangers;
  for (int i = 0; i < kMostPending; ++i) {
    strangers.push_back(Stranger::connect(port));
    strangers.back()->send(hello_of({"c", "join", 0, 2, make_nonce(), ""}));
  }
  for (const auto& stranger : strangers) EXPECT_EQ(stranger->hear().type, FrameType::challenge);
  return strangers;
}

MemberOptions member_options(const Coordinator& coordinator, int rank, int size) {
  MemberOptions options{.secret = kSecret, .address = "a"};
  options.cluster.id = "c";
  options.cluster.rank = options.cluster.task = rank;
  options.cluster.size = size;
  options.cluster.coordinator = {"127.0.0.1", coordinator.port()};
  options.cluster.hosted = true;
  return options;
}

TEST(Coordinator, WhoComesWhileManyWaitIsLetInLater) {
  std::atomic<int> put_off{0};
  const Coordinator coordinator({.listen = "127.0.0.1:0",
                                 .cluster = "c",
                                 .size = 1,
                                 .secret = kSecret,
                                 .log = [&](const std::string& text) {
                                   if (text.starts_with("put off somebody")) ++put_off;
                                 }});
  const auto strangers = strangers_at(coordinator.port());
  int generation = 0;
  std::thread joining([&] { generation = Member(member_options(coordinator, 0, 1)).generation(); });
  for (const auto end = Clock::now() + kPatience; put_off == 0 && Clock::now() < end;) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  for (const auto& stranger : strangers) stranger->leave();
  joining.join();
  EXPECT_EQ(put_off, 1) << "it is logged once";
  EXPECT_EQ(generation, 1);
}

TEST(Coordinator, ManyRanksMayComeAtOnce) {
  constexpr int kRanks = 90;
  const Coordinator coordinator({.listen = "127.0.0.1:0",
                                 .cluster = "c",
                                 .size = kRanks,
                                 .secret = kSecret,
                                 .log = [](const std::string&) {}});
  std::vector<std::thread> threads;
  std::atomic<int> told{0};
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Member member(member_options(coordinator, rank, kRanks));
      const collective::Exchanger::Waiting waiting{
          .text = "all-reduce #5 'x', for rank 0", .number = 5, .signature = "all-reduce 'x'"};
      member.begin_beats([](const Verdict&) {},
                         [=] { return rank == 0 ? collective::Exchanger::Waiting{} : waiting; });
      // The first one's text is gathered in vain, which is known when the heartbeats of all others
      // have said what they wait for.
      if (rank == 0) {
        EXPECT_THROW(member.gather_texts("words", "w", seconds(60)), FailedPrecondition);
      }
      for (const auto end = Clock::now() + 3 * kPatience;
           !member.verdict() && Clock::now() < end;) {
        std::this_thread::sleep_for(milliseconds(20));
      }
      if (member.verdict() && member.verdict()->kind == "FailedPrecondition") ++told;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(told, kRanks);
}

}  // namespace
}  // namespace tandem::cluster
