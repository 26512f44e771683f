#include "data/ahead.h"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "core/background.h"
#include "data/elements.h"
#include "harness/fresh_devices.h"
#include "harness/threads.h"
#include "harness/throws.h"

namespace tandem::data {
namespace {

using harness::eventually;
using harness::throws;
using std::chrono::milliseconds;

class AheadTest : public harness::FreshDevices {};

/// Long enough for a thread that does something it should not.
void pause() { std::this_thread::sleep_for(milliseconds(20)); }

// ---- Map ----

TEST_F(AheadTest, ParallelMapsKeepTheOrder) {
  const auto dataset = Dataset::range(200).map(
      [](const Tensor& x) {
        const int64_t i = x.item<int64_t>();
        if (i % 7 == 0) std::this_thread::sleep_for(milliseconds(1));
        return Tensor(i * i);
      },
      {.parallel = 4});
  const Numbers squares = numbers_of(dataset);
  ASSERT_EQ(squares.size(), 200u);
  for (size_t i = 0; i < 200; ++i) EXPECT_EQ(squares[i], static_cast<int64_t>(i * i));
}

TEST_F(AheadTest, AsManyCallsRunAtOnceAsToldTheCallersAmongThem) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  const auto dataset = Dataset::range(40).map(
      [&](const Tensor& x) {
        const int now = ++running;
        most = std::max(most.load(), now);
        {
          const std::lock_guard lock(mutex);
          threads.insert(std::this_thread::get_id());
        }
        if (x.item<int64_t>() < 3) eventually([&] { return most == 3; });
        --running;
        return x;
      },
      {.parallel = 3});
  numbers_of(dataset);
  EXPECT_EQ(most, 3);
  EXPECT_EQ(threads.size(), 3u);
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

TEST_F(AheadTest, ElementsBeforeAnErrorComeFirst) {
  const auto dataset = Dataset::range(100).map(
      [](const Tensor& x) -> Tensor {
        if (x.item<int64_t>() == 37) throw InvalidArgument("a bad picture");
        return x;
      },
      {.parallel = 3});
  for (const auto& each : {dataset, dataset.prefetch(5)}) {
    auto iterator = each.iterator(0);
    for (int64_t i = 0; i < 37; ++i) EXPECT_EQ((*iterator.next())[0].item<int64_t>(), i);
    for (int again = 0; again < 2; ++again) {
      EXPECT_TRUE(
          throws<InvalidArgument>([&] { iterator.next(); }, {"map: element 37: a bad picture"}));
    }
  }
}

TEST_F(AheadTest, ErrorsOfARestoredIteratorHaveTheNumberInTheEpoch) {
  const auto dataset = Dataset::range(20).map(
      [](const Tensor& x) -> Tensor {
        if (x.item<int64_t>() == 12) throw InvalidArgument("a bad picture");
        return x;
      },
      {.parallel = 2});
  auto iterator = dataset.iterator(0);
  for (int i = 0; i < 9; ++i) iterator.next();
  auto restored = dataset.restore(iterator.save());
  for (int i = 9; i < 12; ++i) restored.next();
  EXPECT_TRUE(throws<InvalidArgument>([&] { restored.next(); }, {"map: element 12: "}));
}

// ---- Prefetch ----

TEST_F(AheadTest, PrefetchMakesSoManyElementsAndThenRestsUntilHalfAreTaken) {
  std::atomic<int> made{0};
  std::atomic<bool> first_is_taken{false};
  const auto dataset = Dataset::range(100).map([&](const Tensor& x) {
    if (x.item<int64_t>() > 0) eventually([&] { return first_is_taken.load(); });
    ++made;
    return x;
  });
  auto iterator = dataset.prefetch(8).iterator(0);
  EXPECT_EQ(made, 0);
  iterator.next();
  first_is_taken = true;
  constexpr int kFull = 9;
  ASSERT_TRUE(eventually([&] { return made == kFull; }));
  pause();
  EXPECT_EQ(made, kFull);
  int taken = 1;
  while (kFull - taken > 5) {
    iterator.next();
    ++taken;
  }
  pause();
  EXPECT_EQ(made, kFull);
  iterator.next();
  EXPECT_TRUE(eventually([&] { return made == taken + 1 + 8; })) << made << " of " << taken;
}

TEST_F(AheadTest, PrefetchOfArraysHasNoThread) {
  const auto rows = Dataset::from_tensor_slices(zeros({100, 3}));
  const auto before = harness::thread_count();
  auto cheap = rows.shuffle(100).repeat().batch(8).prefetch(4).iterator();
  for (int i = 0; i < 5; ++i) cheap.next();
  EXPECT_LE(harness::thread_count(), before);
  auto mapped = rows.map([](const Tensor& x) { return x; }).prefetch(4).iterator();
  mapped.next();
  EXPECT_TRUE(eventually([&] { return harness::thread_count() == before + 1; }));
}

TEST_F(AheadTest, PrefetchOfACacheNeedsItsThreadOnce) {
  const auto cached = Dataset::range(10).map([](const Tensor& x) { return x; }).cache();
  const auto before = harness::thread_count();
  const auto dataset = cached.prefetch(2);
  const Numbers first = numbers_of(dataset);
  auto iterator = dataset.iterator();
  iterator.next();
  EXPECT_TRUE(eventually([&] { return harness::thread_count() == before; }));
  EXPECT_EQ(numbers_of(dataset), first);
}

TEST_F(AheadTest, ThreadsEndWithTheirIterator) {
  std::atomic<int> made{0};
  const auto before = harness::thread_count();
  {
    auto iterator = Dataset::range(1'000'000)
                        .map(
                            [&](const Tensor& x) {
                              ++made;
                              return x;
                            },
                            {.parallel = 3})
                        .prefetch(4)
                        .iterator();
    iterator.next();
  }
  const int at_end = made;
  EXPECT_TRUE(eventually([&] { return harness::thread_count() == before; }));
  pause();
  EXPECT_EQ(made, at_end);
}

// ---- Threads in the background ----

TEST_F(AheadTest, OpsInTheBackgroundStayOnTheirThread) {
  const Tensor x = random_normal({256, 256}, 0, 1, {.seed = 1});
  FreshDevices::restart();  // Devices without a team so far.
  std::vector<float> there;
  const auto before = harness::thread_count();
  decltype(harness::thread_count()) during = 0;
  std::thread([&] {
    core::enter_background();
    const Tensor y = Tensor::from(x.to_vector<float>(), {256, 256});
    there = matmul(y, y).to_vector<float>();
    during = harness::thread_count();
  }).join();
  EXPECT_LE(during, before + 1);
  const Tensor y = Tensor::from(x.to_vector<float>(), {256, 256});
  EXPECT_EQ(there, matmul(y, y).to_vector<float>());
}

TEST_F(AheadTest, MapsOnThreadsAreInTheBackground) {
  std::atomic<int> background{0};
  const auto caller = std::this_thread::get_id();
  const auto dataset = Dataset::range(50).map([&](const Tensor& x) {
    EXPECT_EQ(core::in_background(), std::this_thread::get_id() != caller);
    if (core::in_background()) ++background;
    return x;
  });
  auto iterator = dataset.prefetch(10).iterator();
  iterator.next();
  EXPECT_TRUE(eventually([&] { return background > 0; }));
}

// ---- Deadlines ----

/// A function that other threads than the test's do not return from until it is released.
struct Stuck {
  std::atomic<bool> released{false};
  std::thread::id caller = std::this_thread::get_id();

  void pass() const {
    if (std::this_thread::get_id() != caller) eventually([&] { return released.load(); });
  }
};

TEST_F(AheadTest, AStuckTransformationIsNamedAndItsThreadLeftToItself) {
  const auto stuck = std::make_shared<Stuck>();
  const std::weak_ptr<Stuck> alive = stuck;
  std::string logged;
  logging::set_sink([&](logging::Level, std::string_view text) { logged = text; });
  {
    auto iterator = Dataset::from_generator([stuck] {
                      return [stuck]() -> std::optional<Tensor> {
                        stuck->pass();
                        return Tensor(1);
                      };
                    })
                        .prefetch(2)
                        .iterator();
    const auto take_all = [&] {
      while (iterator.next()) {
      }
    };
    config::set_wait_deadline(milliseconds(50));
    EXPECT_TRUE(throws<DeadlineExceeded>(
        take_all,
        {"prefetch: element ", "was not ready within 0.05 s; it is still in from_generator"}));
  }
  logging::set_sink({});
  EXPECT_NE(logged.find("prefetch: a function did not return"), std::string::npos) << logged;
  config::set_wait_deadline(std::chrono::seconds(120));
  // Once it returns, the thread ends and takes all with it.
  Stuck* const held = stuck.get();
  const auto owners = stuck.use_count();
  EXPECT_GT(owners, 1);
  held->released = true;
  EXPECT_TRUE(eventually([&] { return stuck.use_count() == 1; }));
  EXPECT_FALSE(alive.expired());
}

TEST_F(AheadTest, AStuckFunctionOfAMapIsNamed) {
  Stuck stuck;
  auto iterator = Dataset::range(1'000'000)
                      .map(
                          [&](const Tensor& x) {
                            stuck.pass();
                            return x;
                          },
                          {.parallel = 2})
                      .iterator();
  config::set_wait_deadline(milliseconds(50));
  EXPECT_TRUE(throws<DeadlineExceeded>(
      [&] {
        while (iterator.next()) {
        }
      },
      {"map: element ", "was not ready within 0.05 s; it is still in the function"}));
  config::set_wait_deadline(std::chrono::seconds(120));
  stuck.released = true;
  const auto before = harness::thread_count();
  { const Iterator ended = std::move(iterator); }
  EXPECT_TRUE(eventually([&] { return harness::thread_count() == before - 1; }));
}

}  // namespace
}  // namespace tandem::data
