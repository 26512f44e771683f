#include "data/position.h"

#include <random>

#include "data/elements.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"

namespace tandem::data {
namespace {

using harness::throws;

class PositionTest : public harness::FreshDevices {};

Dataset endless_generator() {
  return Dataset::from_generator([](int64_t epoch) {
    return [n = 10 * epoch]() mutable -> std::optional<Tensor> { return Tensor(n++); };
  });
}

/// From each position on, what comes is what would have come.
void check_positions(const Dataset& dataset, int64_t epoch) {
  SCOPED_TRACE(dataset.str());
  constexpr int kMost = 60;
  const auto all = texts_of(dataset.iterator(epoch), kMost);
  auto iterator = dataset.iterator(epoch);
  for (size_t taken = 0; taken <= all.size(); ++taken) {
    const std::string saved = iterator.save();
    auto restored = dataset.restore(saved);
    EXPECT_EQ(restored.position(), static_cast<int64_t>(taken));
    EXPECT_EQ(restored.epoch(), epoch);
    EXPECT_EQ(restored.save(), saved);
    const auto rest = texts_of(std::move(restored), kMost - static_cast<int>(taken));
    ASSERT_EQ(rest, std::vector<std::string>(all.begin() + static_cast<int64_t>(taken), all.end()))
        << "after " << taken;
    iterator.next();
  }
}

TEST_F(PositionTest, OfEachTransformation) {
  const auto rows = Dataset::from_tensor_slices(counting(17), counting(17));
  const auto twice = [](const Tensor& x) { return x + x; };
  const auto odd = [](const Tensor& x) { return x.item<int64_t>() % 2 == 1; };
  const auto numbers = Dataset::range(23);
  const ShuffleOptions seed{.seed = 3};
  for (const Dataset& dataset : {
           rows,
           numbers,
           endless_generator().take(9),
           Dataset::zip(numbers, rows),
           numbers.map(twice),
           numbers.map(twice, {.parallel = 3}),
           numbers.filter(odd),
           rows.batch(5),
           numbers.batch(5),
           numbers.batch(5, {.drop_remainder = true}),
           rows.shuffle(17, seed),
           rows.shuffle(4, seed),
           numbers.map(twice).shuffle(23, seed),
           numbers.map(twice).shuffle(4, seed),
           numbers.filter(odd).shuffle(4, seed),
           numbers.repeat().shuffle(7, seed),
           numbers.repeat(2),
           numbers.filter(odd).repeat(3),
           numbers.take(9),
           numbers.skip(9),
           numbers.shard(4, 3),
           numbers.map(twice).cache(),
           numbers.shuffle(5, seed).cache().repeat(2),
           numbers.map(twice).prefetch(4),
           rows.shuffle(17, seed).batch(4).repeat(),
       }) {
    check_positions(dataset, 0);
    check_positions(dataset, 2);
  }
}

/// A pipeline of transformations drawn at random.
Dataset random_pipeline(std::mt19937& random) {
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  const int64_t rows = below(40);
  Dataset dataset =
      below(2) == 0 ? Dataset::range(rows) : Dataset::from_tensor_slices(counting(rows));
  if (below(3) == 0) dataset = Dataset::zip(dataset, endless_generator());
  for (int64_t transformations = below(7); transformations > 0; --transformations) {
    switch (below(11)) {
      case 0:
        dataset = dataset.map(
            [](Tensors all) {
              all[0] = all[0] + all[0];
              return all;
            },
            {.parallel = static_cast<int>(1 + below(3))});
        break;
      case 1:
        dataset = dataset.filter(
            [](const Tensors& all) { return reduce_sum(all[0]).item<int64_t>() % 3 != 1; });
        break;
      case 2:
        dataset = dataset.batch(1 + below(4), {.drop_remainder = true});
        break;
      case 3:
      case 4:
      case 5:
        dataset = dataset.shuffle(1 + below(30), {.seed = random()});
        break;
      case 6:
        dataset = below(4) == 0 ? dataset.repeat() : dataset.repeat(below(4));
        break;
      case 7:
        dataset = dataset.take(below(50));
        break;
      case 8:
        dataset = dataset.skip(below(6));
        break;
      case 9:
        dataset = dataset.shard(1 + below(2), 0);
        break;
      default:
        dataset = below(2) == 0 || dataset.cardinality() < 0 ? dataset.prefetch(1 + below(4))
                                                             : dataset.cache();
    }
  }
  return dataset;
}

TEST_F(PositionTest, OfRandomPipelines) {
  std::mt19937 random(20);
  for (int i = 0; i < 150; ++i) check_positions(random_pipeline(random), i % 3);
}

TEST_F(PositionTest, CardinalitiesOfRandomPipelinesAreTheirNumberOfElements) {
  std::mt19937 random(21);
  for (int i = 0; i < 200; ++i) {
    const Dataset dataset = random_pipeline(random);
    const int64_t cardinality = dataset.cardinality();
    if (cardinality < 0) continue;
    EXPECT_EQ(static_cast<int64_t>(texts_of(dataset.iterator(), 2000).size()), cardinality)
        << dataset.str();
  }
}

TEST_F(PositionTest, RestoringDoesNotMakeWhatIsPassedOver) {
  int calls = 0;
  const auto dataset = Dataset::range(1000)
                           .map([&](const Tensor& x) {
                             ++calls;
                             return x;
                           })
                           .shuffle(10, {.seed = 1})
                           .batch(5)
                           .repeat(4);
  auto iterator = dataset.iterator(0);
  for (int i = 0; i < 700; ++i) iterator.next();
  const auto saved = iterator.save();
  calls = 0;
  auto restored = dataset.restore(saved);
  EXPECT_LE(calls, 10);
  EXPECT_EQ(text_of(*restored.next()), text_of(*iterator.next()));
}

TEST_F(PositionTest, APositionDoesNotDependOnThreads) {
  const auto twice = [](const Tensor& x) { return x + x; };
  auto iterator = Dataset::range(30).map(twice).prefetch(3).iterator(1);
  for (int i = 0; i < 11; ++i) iterator.next();
  auto restored = Dataset::range(30).map(twice, {.parallel = 4}).restore(iterator.save());
  EXPECT_EQ(text_of(*restored.next()), text_of(*iterator.next()));
}

TEST_F(PositionTest, OfAnotherDatasetIsRefusedWithBoth) {
  const auto saved = Dataset::range(10).shuffle(5, {.seed = 1}).iterator().save();
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { Dataset::range(10).shuffle(5, {.seed = 2}).restore(saved); },
                              {"restore: ", "'range(0, 10, 1) | shuffle(5, seed 1)'",
                               "'range(0, 10, 1) | shuffle(5, seed 2)'"}));
}

TEST_F(PositionTest, BeyondTheEndIsRefused) {
  const auto shorter = [](int64_t rows) {
    return Dataset::from_generator([rows] {
      return [n = int64_t{0}, rows]() mutable -> std::optional<Tensor> {
        return n < rows ? std::optional(Tensor(n++)) : std::nullopt;
      };
    });
  };
  auto iterator = shorter(5).iterator();
  for (int i = 0; i < 5; ++i) iterator.next();
  EXPECT_TRUE(throws<InvalidArgument>([&] { shorter(3).restore(iterator.save()); },
                                      {"after 5 elements", "ends after 3"}));
}

TEST_F(PositionTest, DamagedBytesAreDataLoss) {
  const auto dataset = Dataset::range(10);
  const std::string saved = dataset.iterator().save();
  for (size_t length = 0; length < saved.size(); ++length) {
    EXPECT_TRUE(throws<DataLoss>([&] { dataset.restore(saved.substr(0, length)); }, {"restore: "}))
        << length;
  }
  EXPECT_TRUE(throws<DataLoss>([&] { position_from("tandem data position 1\n-1 4\nx\n"); },
                               {"damaged numbers"}));
  const Position position{3, 4, "range(0, 1, 1)"};
  EXPECT_EQ(position_from(to_bytes(position)), position);
}

}  // namespace
}  // namespace tandem::data
