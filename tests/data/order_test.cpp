/// The order of elements as a function of seed and epoch; what a cache keeps of it.
#include <algorithm>
#include <set>

#include "data/elements.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "runtime/random_calls.h"

namespace tandem::data {
namespace {

class OrderTest : public harness::FreshDevices {};

TEST_F(OrderTest, AShuffleIsAPermutationOfTheSeedAndTheEpoch) {
  const auto shuffled = Dataset::from_tensor_slices(counting(100)).shuffle(100, {.seed = 7});
  const Numbers first = numbers_of(shuffled, 0);
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 100u);
  EXPECT_EQ(numbers_of(shuffled, 0), first);
  EXPECT_NE(numbers_of(shuffled, 1), first);
  EXPECT_NE(numbers_of(Dataset::range(100).shuffle(100, {.seed = 8})), first);
  // In memory or not, ahead or not, in batches or not: the order is the same.
  EXPECT_EQ(numbers_of(Dataset::range(100).shuffle(100, {.seed = 7})), first);
  EXPECT_EQ(numbers_of(shuffled.batch(7).prefetch(3)), first);
  EXPECT_EQ(numbers_of(Dataset::range(100)
                           .map([](const Tensor& x) { return x; }, {.parallel = 3})
                           .prefetch(5)
                           .shuffle(100, {.seed = 7})),
            first);
}

TEST_F(OrderTest, TheOrderOfASeedNeverChanges) {
  // The orders are those of a few lines of Python: positions that earlier versions saved stay true.
  EXPECT_EQ(numbers_of(Dataset::range(10).shuffle(10, {.seed = 7}), 0),
            (Numbers{5, 6, 3, 8, 2, 4, 1, 7, 9, 0}));
  EXPECT_EQ(numbers_of(Dataset::range(10).shuffle(3, {.seed = 7}), 5),
            (Numbers{0, 1, 2, 4, 3, 7, 8, 5, 6, 9}));
}

TEST_F(OrderTest, EveryPlaceIsEquallyLikely) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kEpochs = 5000;
  const auto shuffled = Dataset::range(kRows).shuffle(kRows, {.seed = 11});
  std::vector<Numbers> counts(kRows, Numbers(kRows));
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Numbers order = numbers_of(shuffled, epoch);
    for (size_t i = 0; i < order.size(); ++i) ++counts[i][static_cast<size_t>(order[i])];
  }
  // Binomial with deviation 28: five deviations.
  for (const auto& row : counts) {
    for (const int64_t count : row) EXPECT_NEAR(static_cast<double>(count), 1000, 142);
  }
}

TEST_F(OrderTest, ElementsComeInAnOrderThatIsGiven) {
  const Numbers order = {3, 0, 3, 2};
  const auto rows = Dataset::from_tensor_slices(counting(4)).in_order(order);
  EXPECT_EQ(rows.cardinality(), 4);
  EXPECT_EQ(numbers_of(rows), order);
  EXPECT_EQ(numbers_of(rows.batch(3).prefetch(2)), order);
  EXPECT_EQ(numbers_of(rows.skip(1)), (Numbers{0, 3, 2}));
  EXPECT_EQ(numbers_of(rows.repeat(2)), (Numbers{3, 0, 3, 2, 3, 0, 3, 2}));
  EXPECT_EQ(numbers_of(Dataset::range(4).map([](const Tensor& x) { return x; }).in_order(order)),
            order);
  EXPECT_EQ(numbers_of(rows.in_order({1, 2})), (Numbers{0, 3}));
  auto iterator = rows.iterator(0);
  iterator.next();
  EXPECT_EQ(rows.restore(iterator.save()).next()->at(0).item<int64_t>(), 0);
  EXPECT_NE(rows.str(), Dataset::from_tensor_slices(counting(4)).in_order({3, 0, 2, 3}).str());
}

TEST_F(OrderTest, AnOrderOfWhatIsNotThereIsRefused) {
  const auto rows = Dataset::range(3);
  EXPECT_TRUE(harness::throws<InvalidArgument>(
      [&] {
        rows.in_order({0, -1});
      },
      {"in_order: each number is -1, at least 0"}));
  EXPECT_TRUE(harness::throws<InvalidArgument>([&] { rows.repeat().in_order({0}); },
                                               {"in_order: the elements never end"}));
  EXPECT_TRUE(harness::throws<InvalidArgument>(
      [&] {
        rows.in_order({2, 3}).batch(2).iterator().next();
      },
      {"in_order: there is no element 3; there are 3, numbered from 0"}));
}

TEST_F(OrderTest, FillingABufferCanBeInterrupted) {
  const auto shuffled = Dataset::range(600)
                            .map([](const Tensor& x) { return x + int64_t{1}; })
                            .shuffle(600, {.seed = 3});
  auto iterator = shuffled.iterator();
  interruption::request();
  EXPECT_THROW(iterator.next(), Interrupted);
  const Numbers order = numbers_of(shuffled);  // The data set can be read again.
  EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 600u);
}

TEST_F(OrderTest, ASmallBufferMovesAnElementForwardByLessThanItsSize) {
  const Numbers order = numbers_of(Dataset::range(200).shuffle(10, {.seed = 5}));
  ASSERT_EQ(order.size(), 200u);
  for (int64_t i = 0; i < 200; ++i) EXPECT_LT(order[static_cast<size_t>(i)], i + 10);
  EXPECT_FALSE(std::ranges::is_sorted(order));
  EXPECT_EQ(numbers_of(Dataset::range(20).shuffle(1)), numbers_of(Dataset::range(20)));
}

TEST_F(OrderTest, TwoShufflesWithOneSeedDrawDifferentOrders) {
  const auto once = Dataset::range(50).shuffle(50, {.seed = 2});
  const Numbers first = numbers_of(once);
  Numbers twice_the_same(50);
  for (size_t i = 0; i < 50; ++i) twice_the_same[i] = first[static_cast<size_t>(first[i])];
  EXPECT_NE(numbers_of(once.shuffle(50, {.seed = 2})), twice_the_same);
}

TEST_F(OrderTest, TheSameOrderInEachEpochOnRequest) {
  const auto fixed = Dataset::range(30).shuffle(30, {.seed = 4, .reshuffle_each_epoch = false});
  EXPECT_EQ(numbers_of(fixed, 3), numbers_of(fixed, 0));
}

TEST_F(OrderTest, EachPassIsTheNextEpoch) {
  const auto shuffled = Dataset::range(30).shuffle(30, {.seed = 4});
  const Dataset copy = shuffled;
  EXPECT_EQ(numbers_of(shuffled.iterator()), numbers_of(shuffled, 0));
  EXPECT_EQ(numbers_of(copy.iterator()), numbers_of(shuffled, 1));
  EXPECT_EQ(shuffled.iterator().epoch(), 2);
}

TEST_F(OrderTest, WithoutASeedTheGlobalSeedDecides) {
  const auto order = [] { return numbers_of(Dataset::range(50).shuffle(50)); };
  random::set_seed(1);
  const Numbers first = order();
  EXPECT_NE(order(), first);
  random::set_seed(1);
  EXPECT_EQ(order(), first);
  random::set_seed(2);
  EXPECT_NE(order(), first);
  runtime::forget_global_seed();
}

// ---- Cache ----

TEST_F(OrderTest, ACacheIsFilledByTheFirstWholePass) {
  int calls = 0;
  const auto cached = Dataset::range(4)
                          .map([&](const Tensor& x) {
                            ++calls;
                            return x;
                          })
                          .cache();
  auto part = cached.iterator();
  part.next();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(numbers_of(cached), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(numbers_of(cached.repeat(3)), (Numbers{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(numbers_of(std::move(part)), (Numbers{1, 2, 3}));
}

TEST_F(OrderTest, ACacheKeepsTheOrderOfEpochZero) {
  const auto shuffled = Dataset::range(20).shuffle(20, {.seed = 1});
  const auto cached = shuffled.cache();
  EXPECT_EQ(numbers_of(cached, 5), numbers_of(shuffled, 0));
  EXPECT_EQ(numbers_of(cached, 6), numbers_of(shuffled, 0));
}

}  // namespace
}  // namespace tandem::data
