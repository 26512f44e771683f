#include "data/elements.h"
#include "data/source.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/data.h"

namespace tandem::data {
namespace {

using harness::throws;

class DatasetTest : public harness::FreshDevices {};

// ---- Sources ----

TEST_F(DatasetTest, SlicesAreTheRowsOfEachTensor) {
  const auto dataset =
      Dataset::from_tensor_slices(Tensor::of({{1.0f, 2.0f}, {3.0f, 4.0f}}), Tensor::of({7, 8}));
  EXPECT_EQ(dataset.cardinality(), 2);
  auto iterator = dataset.iterator();
  const auto first = iterator.next();
  ASSERT_TRUE(first);
  ASSERT_EQ(first->size(), 2u);
  EXPECT_EQ((*first)[0].to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ((*first)[1].shape(), Shape());
  EXPECT_EQ((*first)[1].item<int32_t>(), 7);
  EXPECT_EQ((*iterator.next())[0].to_vector<float>(), (std::vector<float>{3, 4}));
  EXPECT_FALSE(iterator.next());
  EXPECT_FALSE(iterator.next());
  EXPECT_EQ(iterator.position(), 2);
}

TEST_F(DatasetTest, SlicesOfAStructure) {
  const std::pair<Tensor, Tensors> structure{counting(3), {counting(3), counting(3)}};
  EXPECT_EQ(Dataset::from_tensor_slices(structure).iterator().next()->size(), 3u);
}

TEST_F(DatasetTest, SlicesThatCannotBeAreNamed) {
  EXPECT_TRUE(throws<InvalidArgument>([] { Dataset::from_tensor_slices(); }, {"no tensor"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { Dataset::from_tensor_slices(counting(2), Tensor(1)); },
                                      {"from_tensor_slices: tensor 1 is a scalar"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { Dataset::from_tensor_slices(counting(3), counting(3), counting(4)); },
      {"tensor 0 has 3 rows and tensor 2 has 4", "(int64[3], int64[3], int64[4])"}));
}

/// Reads a file whose name is its number of elements: of "3" they are 30, 31, 32.
auto read_numbers(const std::string& path) {
  const int64_t count = std::stoll(path);
  return [count, at = int64_t{0}]() mutable -> std::optional<Tensor> {
    if (at == count) return std::nullopt;
    return Tensor(10 * count + at++);
  };
}

TEST_F(DatasetTest, FilesAreReadOneAfterTheOther) {
  const auto dataset = Dataset::from_files({"2", "0", "3", "1"}, read_numbers);
  EXPECT_EQ(numbers_of(dataset), (Numbers{20, 21, 30, 31, 32, 10}));
  EXPECT_EQ(dataset.cardinality(), kUnknown);
  EXPECT_EQ(dataset.batch(4).str(), "from_files(4 files, '2' to '1') | batch(4)");
  auto iterator = dataset.iterator(0);
  for (int i = 0; i < 3; ++i) iterator.next();
  EXPECT_EQ(numbers_of(dataset.restore(iterator.save())), (Numbers{31, 32, 10}));
  EXPECT_TRUE(throws<InvalidArgument>([] { Dataset::from_files({}, read_numbers); },
                                      {"from_files: no file is given"}));
  EXPECT_TRUE(throws<Unavailable>(
      [] {
        numbers_of(Dataset::from_files({"1", "no number"}, read_numbers));
      },
      {"from_files: element 1: no number: "}));
}

TEST_F(DatasetTest, SomeFilesMakeSmallerBatches) {
  const auto files = Dataset::from_files({"2", "4", "3", "1"}, read_numbers);
  EXPECT_EQ(files.files(), 4);
  const auto twice = [](const Tensor& x) { return x + x; };
  // The second of two processes of one replica each.
  const FileShare second{1, 2, BatchShare{1, 1, 2}};
  const auto all = files.map(twice).shuffle(1).batch(5).cache().prefetch(2);
  const auto some = all.share_of_files(second);
  EXPECT_EQ(sizes_of(some), (Numbers{2, 2, 1}));
  EXPECT_EQ(numbers_of(some), (Numbers{80, 82, 84, 86, 20}));
  EXPECT_EQ(sizes_of(all.share_of_files({0, 2, BatchShare{0, 1, 2}})), (Numbers{3, 2}));
  EXPECT_EQ(numbers_of(Dataset::zip(files, files).skip(1).take(2).batch(2).share_of_files(second)),
            (Numbers{41, 42}));
  // Only the last batch is of all processes.
  EXPECT_EQ((*files.batch(2).batch(2).share_of_files(second).iterator().next())[0].shape(),
            (Shape{1, 2}));
  EXPECT_EQ(Dataset::zip(files, Dataset::range(5)).files(), 0);
  EXPECT_TRUE(throws<InvalidArgument>([&] { files.map(twice).share_of_files(second); },
                                      {"from_files(4 files, '2' to '1')", "batch the data set"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { files.batch(1).share_of_files(second); },
                                      {"1 rows are fewer than the 2 replicas"}));
}

TEST_F(DatasetTest, AnEmptyDatasetHasNoElements) {
  const auto empty = Dataset::from_tensor_slices(zeros({0, 3}));
  EXPECT_EQ(empty.cardinality(), 0);
  EXPECT_FALSE(empty.iterator().next());
  EXPECT_FALSE(empty.shuffle(4).batch(2).repeat().prefetch(2).iterator().next());
  EXPECT_EQ(empty.batch(2).repeat().cardinality(), 0);
  EXPECT_FALSE(Dataset::range(0).batch(3).iterator().next());
}

TEST_F(DatasetTest, RowsWithoutElementsAreBatchedToo) {
  const auto batch =
      Dataset::from_tensor_slices(zeros({4, 0})).shuffle(4).batch(3).iterator().next();
  EXPECT_EQ((*batch)[0].shape(), (Shape{3, 0}));
}

TEST_F(DatasetTest, Ranges) {
  EXPECT_EQ(numbers_of(Dataset::range(3)), (Numbers{0, 1, 2}));
  EXPECT_EQ(numbers_of(Dataset::range(2, 9, 3)), (Numbers{2, 5, 8}));
  EXPECT_EQ(numbers_of(Dataset::range(3, 0, -2)), (Numbers{3, 1}));
  EXPECT_EQ(Dataset::range(2, 9, 3).cardinality(), 3);
  EXPECT_EQ(Dataset::range(5, 2).cardinality(), 0);
  EXPECT_TRUE(throws<InvalidArgument>([] { Dataset::range(0, 5, 0); }, {"range: ", "steps of 0"}));
}

TEST_F(DatasetTest, GeneratorsAreStartedInEachEpoch) {
  const auto dataset = Dataset::from_generator([](int64_t epoch) {
    return [n = int64_t{0}, epoch]() mutable -> std::optional<Tensor> {
      if (n == 3) return std::nullopt;
      return Tensor(100 * epoch + n++);
    };
  });
  EXPECT_EQ(dataset.cardinality(), kUnknown);
  EXPECT_EQ(numbers_of(dataset), (Numbers{0, 1, 2}));
  EXPECT_EQ(numbers_of(dataset.repeat(2), 1), (Numbers{200, 201, 202, 300, 301, 302}));
}

TEST_F(DatasetTest, GeneratorsOfStructures) {
  const auto dataset = Dataset::from_generator([] {
    return [n = 0]() mutable -> std::optional<std::pair<Tensor, Tensor>> {
      if (n++ > 0) return std::nullopt;
      return std::pair{Tensor(1.0f), Tensor(2)};
    };
  });
  EXPECT_EQ(dataset.iterator().next()->size(), 2u);
}

TEST_F(DatasetTest, AGeneratorThatChangesItsTypeIsNamedWithBothTypes) {
  const auto dataset = Dataset::from_generator([] {
    return [n = 0]() mutable -> std::optional<Tensors> {
      if (n++ < 2) return Tensors{Tensor(1.0f), Tensor(1)};
      return Tensors{Tensor(1.0), Tensor(1)};
    };
  });
  auto iterator = dataset.iterator();
  iterator.next();
  iterator.next();
  const auto next = [&] { iterator.next(); };
  EXPECT_TRUE(throws<InvalidArgument>(
      next, {"from_generator: element 2: it is (float64[], int32[]), element 0 was (float32[], "}));
  EXPECT_TRUE(throws<InvalidArgument>(next, {"element 2"}));  // Again.
  EXPECT_EQ(iterator.position(), 2);
}

TEST_F(DatasetTest, ZipEndsWithTheShortest) {
  const auto zipped =
      Dataset::zip(Dataset::range(5), Dataset::range(10, 13).map([](const Tensor& x) {
        return std::pair{x, x + x};
      }));
  EXPECT_EQ(zipped.cardinality(), 3);
  auto iterator = zipped.iterator();
  const auto element = iterator.next();
  ASSERT_EQ(element->size(), 3u);
  EXPECT_EQ((*element)[2].item<int64_t>(), 20);
  EXPECT_EQ(numbers_of(zipped), (Numbers{0, 1, 2}));
  EXPECT_TRUE(throws<InvalidArgument>([] { Dataset::zip(); }, {"zip: no data set"}));
}

TEST_F(DatasetTest, ZippedArraysAreArrays) {
  const Tensor x = counting(5);
  const auto zipped =
      Dataset::zip(Dataset::from_tensor_slices(x), Dataset::from_tensor_slices(counting(3)));
  EXPECT_EQ(zipped.str(), "from_tensor_slices(int64[3], int64[3])");
  EXPECT_EQ(numbers_of(zipped.batch(2)), (Numbers{0, 1, 2}));
}

TEST_F(DatasetTest, ZippedShufflesWithOneSeedStayTogether) {
  const auto part = Dataset::range(50).shuffle(10, {.seed = 3});
  for (const auto& [a, b] : Dataset::zip(part, part).as<std::pair<Tensor, Tensor>>()) {
    EXPECT_EQ(a.item<int64_t>(), b.item<int64_t>());
  }
}

// ---- Transformations, with tf.data's sizes and order ----

TEST_F(DatasetTest, BatchesKeepTheRemainderUnlessTold) {
  for (const auto& rows : {Dataset::range(10), Dataset::from_tensor_slices(counting(10))}) {
    EXPECT_EQ(sizes_of(rows.batch(4)), (Numbers{4, 4, 2}));
    EXPECT_EQ(sizes_of(rows.batch(4, {.drop_remainder = true})), (Numbers{4, 4}));
    EXPECT_EQ(rows.batch(4).cardinality(), 3);
    EXPECT_EQ(rows.batch(4, {.drop_remainder = true}).cardinality(), 2);
    EXPECT_EQ(rows.batch(5).cardinality(), 2);
    EXPECT_EQ(numbers_of(rows.batch(4)), numbers_of(rows));
  }
  EXPECT_EQ(sizes_of(Dataset::range(60'000).batch(128)).size(), 469u);
  EXPECT_EQ(sizes_of(Dataset::range(60'000).batch(128)).back(), 96);
}

TEST_F(DatasetTest, BatchesOfBatches) {
  const auto element = Dataset::range(12).batch(2).batch(3).iterator().next();
  EXPECT_EQ((*element)[0].shape(), (Shape{3, 2}));
  EXPECT_EQ((*element)[0].to_vector<int64_t>(), (Numbers{0, 1, 2, 3, 4, 5}));
}

TEST_F(DatasetTest, RaggedBatchesAreNamedWithBothElements) {
  const auto ragged =
      Dataset::range(8).map([](const Tensor& x) { return zeros({2 + x.item<int64_t>() / 6}); });
  auto iterator = ragged.batch(4).iterator();
  iterator.next();
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { iterator.next(); },
      {"batch: element 4 is (float32[2]), element 6 is (float32[3]); ", "same shapes"}));
}

TEST_F(DatasetTest, MapTakesTensorsStructuresOrTheWholeElement) {
  const auto pairs = Dataset::from_tensor_slices(counting(3), counting(3));
  EXPECT_EQ(numbers_of(pairs.map([](const Tensor& x, const Tensor& y) { return x * y; })),
            (Numbers{0, 1, 4}));
  EXPECT_EQ(numbers_of(pairs.map([](const Tensors& all) { return all[0] + all[1]; })),
            (Numbers{0, 2, 4}));
  EXPECT_EQ(numbers_of(pairs.map([](const std::pair<Tensor, Tensor>& p) { return p.second; })),
            (Numbers{0, 1, 2}));
  const auto one = pairs.map([](const Tensor& x) { return x; });
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { one.iterator().next(); },
                              {"map: element 0: 1 tensors are taken from an element of 2"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { pairs.map([](int, Tensor x) { return x; }); },
                                      {"map: the function takes tensors"}));
}

TEST_F(DatasetTest, WhatAMapThrowsIsNamed) {
  const auto bad = Dataset::range(5).map([](const Tensor& x) {
    if (x.item<int64_t>() == 3) throw std::runtime_error("a bad picture");
    return reshape(x, {x.item<int64_t>() == 4 ? 2 : 1});
  });
  auto iterator = bad.iterator();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(iterator.next());
  EXPECT_TRUE(throws<Unavailable>([&] { iterator.next(); }, {"map: element 3: a bad picture"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { bad.skip(4).iterator().next(); }, {"map: element 4: reshape"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { Dataset::range(1).map([](const Tensor&) { return Tensor(); }).iterator().next(); },
      {"map: element 0: tensor 0 of 1 is empty"}));
}

TEST_F(DatasetTest, MapsAreNotPartOfATrace) {
  const auto squares = Dataset::range(4).map([](const Tensor& x) { return x * x; });
  const auto f = function([&](const Tensor& x) {
    Numbers numbers = numbers_of(squares);
    return x + Tensor(numbers[3]);
  });
  EXPECT_EQ(f(counting(2)).to_vector<int64_t>(), (Numbers{9, 10}));
}

TEST_F(DatasetTest, MapsRunOnTheHostUnseenByTapes) {
  config::add_test_device();
  const auto scope = device("/GPU:0");
  const Tensor w(3.0);
  GradientTape tape;
  tape.watch(w);
  const auto mapped = Dataset::range(2).map([&](const Tensor&) { return w * w; });
  const Tensor square = (*mapped.iterator().next())[0];
  EXPECT_EQ(square.device(), "/device:CPU:0");
  EXPECT_EQ(square.item<double>(), 9.0);
  EXPECT_FALSE(tape.gradient(square, w).defined());
}

TEST_F(DatasetTest, FilterKeepsWhatPasses) {
  for (const auto& rows : {Dataset::range(10), Dataset::from_tensor_slices(counting(10))}) {
    const auto odd = rows.filter([](const Tensor& x) { return x.item<int64_t>() % 2 == 1; });
    EXPECT_EQ(odd.cardinality(), kUnknown);
    EXPECT_EQ(numbers_of(odd.batch(2)), (Numbers{1, 3, 5, 7, 9}));
  }
  const auto large =
      Dataset::range(5).filter([](const Tensor& x) { return greater(x, Tensor(int64_t{2})); });
  EXPECT_EQ(numbers_of(large), (Numbers{3, 4}));
}

TEST_F(DatasetTest, TakeSkipAndShard) {
  for (const auto& rows : {Dataset::range(10), Dataset::from_tensor_slices(counting(10))}) {
    EXPECT_EQ(numbers_of(rows.take(3)), (Numbers{0, 1, 2}));
    EXPECT_EQ(numbers_of(rows.skip(8)), (Numbers{8, 9}));
    EXPECT_EQ(numbers_of(rows.skip(11)), Numbers{});
    EXPECT_EQ(numbers_of(rows.shard(4, 1)), (Numbers{1, 5, 9}));
    EXPECT_EQ(numbers_of(rows.shard(4, 3).skip(1)), (Numbers{7}));
    EXPECT_EQ(rows.take(30).cardinality(), 10);
    EXPECT_EQ(rows.skip(11).cardinality(), 0);
    EXPECT_EQ(rows.shard(4, 1).cardinality(), 3);
    EXPECT_EQ(rows.shard(4, 2).cardinality(), 2);
    EXPECT_EQ(rows.repeat().take(7).cardinality(), 7);
    EXPECT_EQ(rows.repeat().skip(7).cardinality(), kInfinite);
  }
}

TEST_F(DatasetTest, CardinalitiesWithoutANumberAreThoseOfTfData) {
  const auto all = Dataset::range(10);
  const auto some = all.filter([](const Tensor& x) { return x.item<int64_t>() > 3; });
  EXPECT_EQ(some.repeat().cardinality(), kInfinite);
  EXPECT_EQ(some.repeat(3).cardinality(), kUnknown);
  EXPECT_EQ(some.repeat(0).cardinality(), 0);
  EXPECT_EQ(some.take(2).cardinality(), kUnknown);
  EXPECT_EQ(some.skip(2).cardinality(), kUnknown);
  EXPECT_EQ(some.batch(2).cardinality(), kUnknown);
  EXPECT_EQ(some.shard(2, 0).cardinality(), kUnknown);
  EXPECT_EQ(Dataset::zip(all, some).cardinality(), kUnknown);
  EXPECT_EQ(Dataset::zip(all, all.repeat()).cardinality(), 10);
  EXPECT_EQ(all.repeat().repeat(2).cardinality(), kInfinite);
  EXPECT_EQ(all.repeat().repeat(0).cardinality(), 0);
  EXPECT_EQ(all.repeat().batch(3).cardinality(), kInfinite);
}

TEST_F(DatasetTest, RepeatsAreTheEpochsOfWhatIsBefore) {
  const auto shuffled = Dataset::range(20).shuffle(20, {.seed = 1});
  Numbers epochs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const Numbers one = numbers_of(shuffled, epoch);
    epochs.insert(epochs.end(), one.begin(), one.end());
  }
  EXPECT_EQ(numbers_of(shuffled.repeat(3)), epochs);
  EXPECT_EQ(numbers_of(shuffled.repeat().take(60)), epochs);
  EXPECT_EQ(shuffled.repeat(3).cardinality(), 60);
  EXPECT_EQ(shuffled.repeat().cardinality(), kInfinite);
  EXPECT_EQ(numbers_of(shuffled.repeat(0)), Numbers{});
  EXPECT_NE(numbers_of(shuffled.repeat().iterator(1), 20),
            Numbers(epochs.begin() + 20, epochs.begin() + 40));
}

TEST_F(DatasetTest, BatchesGoOverTheEndOfARepetition) {
  const auto rows = Dataset::from_tensor_slices(counting(5));
  EXPECT_EQ(numbers_of(rows.repeat(2).batch(4)), (Numbers{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  EXPECT_EQ(sizes_of(rows.repeat(2).batch(4)), (Numbers{4, 4, 2}));
  EXPECT_EQ(sizes_of(rows.batch(4).repeat(2)), (Numbers{4, 1, 4, 1}));
}

TEST_F(DatasetTest, BadSizesAreRefused) {
  const auto rows = Dataset::range(4);
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { rows.batch(0); }, {"batch: the size is 0, at least 1"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { rows.shuffle(0); }, {"shuffle: the buffer is 0"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { rows.take(-1); }, {"take: the count is -1, at least 0"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { rows.skip(-2); }, {"skip: the count is -2"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { rows.repeat(-1); }, {"repeat: the count is -1"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { rows.prefetch(0); }, {"prefetch: the count is 0"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { rows.shard(3, 3); }, {"shard: index 3 of 3 shards"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { rows.shard(0, 0); }, {"shard: index 0 of 0"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { rows.iterator(-1); }, {"iterator: the epoch is -1"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { rows.repeat().cache(); }, {"cache: ", "never end"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { rows.map([](const Tensor& x) { return x; }, {.parallel = 0}); },
                              {"map: parallel is 0"}));
}

TEST_F(DatasetTest, ElementsComeAsStructures) {
  int64_t sum = 0;
  const auto pairs = Dataset::from_tensor_slices(counting(4), counting(4));
  for (const auto& [x, y] : pairs.as<std::pair<Tensor, Tensor>>()) sum += (x * y).item<int64_t>();
  EXPECT_EQ(sum, 14);
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        for (const auto& x : pairs.as<Tensor>()) x.str();
      },
      {"1 tensors are taken from an element of 2"}));
}

}  // namespace
}  // namespace tandem::data
