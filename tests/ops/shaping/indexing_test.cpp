#include <gtest/gtest.h>

#include "device/logical_device.h"
#include "device/test/test_device.h"
#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

const std::vector<double> kSix = {1, 2, 3, 4, 5, 6};

Tensor places(const std::vector<int64_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

auto gathered(int axis) {
  return [axis](const Tensors& t) { return gather(t[0], t[1], axis); };
}

TEST(Indexing, GatherTakesRows) {
  const Tensor table = doubles(kSix, {3, 2});
  const auto f = gathered(0);
  check_op({"rows", {table, places({2, 0, 2, 1}, {4})}, f, {5, 6, 1, 2, 5, 6, 3, 4}, {4, 2}});
  check_op({"matrix", {table, places({1, 1}, {2, 1})}, f, {3, 4, 3, 4}, {2, 1, 2}});
  check_op({"one", {table, places({1}, {})}, f, {3, 4}, {2}});
  check_op({"none", {table, places({}, {0})}, f, {}, {0, 2}, false});
  check_op({"elements", {doubles({1, 2, 3}, {3}), places({2, 2, 0}, {3})}, f, {3, 3, 1}, {3}});
  const Tensor narrow = Tensor::from({2, 0}, {2});
  check_op({"int32", {table, narrow}, f, {5, 6, 1, 2}, {2, 2}});
}

TEST(Indexing, GatherAlongOtherAxes) {
  const Tensor x = doubles(kSix, {2, 3});
  check_op({"columns",
            {x, places({2, 0, 0, 1}, {4})},
            gathered(1),
            {3, 1, 1, 2, 6, 4, 4, 5},
            {2, 4},
            true,
            true});
  check_op({"column", {x, places({1}, {})}, gathered(-1), {2, 5}, {2}, true, true});
  const Tensor cube = doubles({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  check_op({"middle",
            {cube, places({1, 0, 1}, {3})},
            gathered(1),
            {3, 4, 1, 2, 3, 4, 7, 8, 5, 6, 7, 8},
            {2, 3, 2},
            true,
            true});
}

/// The rows of the batch are indices, the table belongs to all replicas.
TEST(Indexing, ABatchOfIndices) {
  const auto f = [](const Tensors& t) {
    return gather(doubles(kSix, {3, 2}), cast(t[0], DType::int64));
  };
  check_op({"embedding",
            {doubles({2, 0, 1, 1}, {4})},
            f,
            {5, 6, 1, 2, 3, 4, 3, 4},
            {4, 2},
            false,
            true});
}

TEST(Indexing, ManyRowsOfALargeTable) {
  const Tensor table = spread({300, 7});
  const auto values = table.to_vector<double>();
  std::vector<int64_t> indices;
  std::vector<double> wanted;
  for (int64_t i = 0; i < 500; ++i) {
    indices.push_back(i * 37 % 300);
    wanted.insert(wanted.end(), values.begin() + indices.back() * 7,
                  values.begin() + indices.back() * 7 + 7);
  }
  check_op({"many", {table, places(indices, {500})}, gathered(0), wanted, {500, 7}, false});
}

TEST(Indexing, GatherHasEveryDtype) {
  const Tensor x = doubles({0, 1, 1, 0}, {4});
  for (DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8, DType::int32,
                      DType::int64, DType::boolean}) {
    const auto f = [dtype](const Tensors& t) { return gather(cast(t[0], dtype), t[1]); };
    check_op({std::string(name_of(dtype)), {x, places({1, 3}, {2})}, f, {1, 0}, {2}, false});
  }
}

TEST(Indexing, GradientsOfRepeatedPlacesAddUp) {
  const Tensor table = doubles({1, 2, 3}, {3});
  GradientTape tape;
  tape.watch(table);
  const Tensor y = gather(table, places({0, 2, 0}, {3})) * doubles({1, 10, 100}, {3});
  EXPECT_EQ(tape.gradient(reduce_sum(y), Tensors{table})[0].to_vector<double>(),
            (std::vector<double>{101, 0, 10}));
}

TEST(Indexing, GradientsOfGatherHaveGradients) {
  const auto f = [](const Tensors& t) {
    GradientTape tape;
    tape.watch(t[0]);
    const Tensor rows = gather(t[0], t[1]);
    return tape.gradient(reduce_sum(rows * rows * rows), Tensors{t[0]})[0];
  };
  check_op({"cubes", {doubles({1, 2, 3}, {3}), places({0, 2, 0}, {3})}, f, {6, 0, 27}, {3}});
}

TEST(Indexing, PlacesOutOfRangeAreNamed) {
  const Tensor x = doubles(kSix, {3, 2});
  for (int64_t bad : {int64_t{3}, int64_t{-1}}) {
    const std::string name = "gather: index " + std::to_string(bad);
    EXPECT_TRUE(throws<InvalidArgument>(
        [&] {
          gather(x, places({0, bad}, {2}));
        },
        {name, "axis 0 of [3,2]", "3"}));
    const auto traced = function([](const Tensor& t, const Tensor& i) { return gather(t, i); });
    EXPECT_TRUE(throws<InvalidArgument>([&] { traced(x, places({0, bad}, {2})); }, {name}));
  }
  EXPECT_TRUE(throws<InvalidArgument>([&] { gather(x, places({2}, {1}), 1); },
                                      {"gather: index 2", "axis 1 of [3,2]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { gather(x, fill({2}, 0)); },
                                      {"gather: indices are float32", "int32 and int64"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { gather(x, places({0}, {1}), 2); }, {"gather: axis 2"}));
}

TEST(Indexing, ADeviceThatRunsLateNamesThePlaceWhenItIsWaitedFor) {
  devices::reset_devices();
  devices::test::add_test_gpu();
  const Tensor rows = gather(doubles(kSix, {3, 2}), places({0, 3}, {2}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { rows.to_vector<double>(); }, {"gather: index 3"}));
  devices::reset_devices();
}

TEST(Indexing, OneHotMarksThePlace) {
  const auto f = [](const Tensors& t) { return one_hot(t[0], 3, {.dtype = DType::float64}); };
  check_op({"rows", {places({2, 0}, {2})}, f, {0, 0, 1, 1, 0, 0}, {2, 3}, false, true});
  check_op({"out of range", {places({3, -1}, {2})}, f, {0, 0, 0, 0, 0, 0}, {2, 3}, false, true});
  check_op({"scalar", {places({1}, {})}, f, {0, 1, 0}, {3}, false});
  check_op({"none", {places({}, {0})}, f, {}, {0, 3}, false});
  check_op({"matrix", {places({1, 0}, {2, 1})}, f, {0, 1, 0, 1, 0, 0}, {2, 1, 3}, false, true});
  const auto signs = [](const Tensors& t) {
    return one_hot(t[0], 2, {.on = 5, .off = -1, .dtype = DType::int32});
  };
  check_op({"values", {Tensor::from({1, 0}, {2})}, signs, {-1, 5, 5, -1}, {2, 2}, false, true});
  EXPECT_EQ(one_hot(places({0}, {1}), 2, {.dtype = DType::boolean}).to_vector<bool>(),
            (std::vector<bool>{true, false}));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { one_hot(fill({2}, 0), 2); }, {"one_hot: indices are float32"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { one_hot(places({0}, {1}), -2); }, {"one_hot: depth -2"}));
}

}  // namespace
}  // namespace tandem::harness
