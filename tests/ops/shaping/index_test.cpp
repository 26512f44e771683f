#include <gtest/gtest.h>

#include <limits>

#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

const std::vector<double> kTwelve = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

template <class... Indices>
auto at(const Indices&... indices) {
  return [=](const Tensors& t) { return t[0](indices...); };
}

auto row(int64_t index) {
  return [=](const Tensors& t) { return t[0][index]; };
}

TEST(Index, APositionTakesTheAxisAway) {
  const Tensor x = doubles(kTwelve, {3, 4});
  check_op({"first", {x}, row(0), {1, 2, 3, 4}, {4}});
  check_op({"last", {x}, row(-1), {9, 10, 11, 12}, {4}});
  check_op({"third from the end", {x}, row(-3), {1, 2, 3, 4}, {4}});
  check_op({"of a vector", {doubles({5, 6}, {2})}, row(1), {6}, {}});
  check_op({"both", {x}, at(1, -2), {7}, {}});
  check_op({"a column", {x}, at(Slice(), 2), {3, 7, 11}, {3}, true, true});
  check_op({"twice", {x}, [](const Tensors& t) { return t[0][2][0]; }, {9}, {}});
}

TEST(Index, ASliceKeepsIt) {
  const Tensor x = doubles(kTwelve, {3, 4});
  check_op({"part of a row", {x}, at(0, Slice(1, 3)), {2, 3}, {2}});
  check_op({"from", {x}, at(Slice(1, {})), {5, 6, 7, 8, 9, 10, 11, 12}, {2, 4}});
  check_op({"up to", {x}, at(Slice(), Slice({}, -2)), {1, 2, 5, 6, 9, 10}, {3, 2}, true, true});
  check_op({"steps", {x}, at(Slice(), Slice({}, {}, -3)), {4, 1, 8, 5, 12, 9}, {3, 2}, true, true});
  check_op({"nothing", {x}, at(Slice(2, 1)), {}, {0, 4}, false});
  check_op({"everything", {x}, at(), kTwelve, {3, 4}, true, true});
  check_op({"as designated", {x}, at(Stride{.begin = -1}), {9, 10, 11, 12}, {1, 4}});
}

TEST(Index, AnEllipsisIsAllAxesThatAreLeft) {
  const Tensor cube = doubles(kTwelve, {2, 3, 2});
  check_op({"last axis", {cube}, at(ellipsis, 1), {2, 4, 6, 8, 10, 12}, {2, 3}, true, true});
  check_op({"around", {cube}, at(1, ellipsis, 0), {7, 9, 11}, {3}});
  check_op({"for none", {cube}, at(1, ellipsis, 2, 1), {12}, {}});
  check_op({"before a slice", {cube}, at(ellipsis, Slice(1, 2), 0), {3, 9}, {2, 1}, true, true});
  check_op({"alone", {cube}, at(ellipsis), kTwelve, {2, 3, 2}, true, true});
}

TEST(Index, ANewAxisHasSizeOne) {
  const Tensor x = doubles({1, 2, 3, 4}, {2, 2});
  check_op({"first", {x}, at(newaxis), {1, 2, 3, 4}, {1, 2, 2}});
  check_op({"within", {x}, at(Slice(), newaxis), {1, 2, 3, 4}, {2, 1, 2}, true, true});
  check_op({"last", {x}, at(ellipsis, newaxis), {1, 2, 3, 4}, {2, 2, 1}, true, true});
  check_op({"for a position", {x}, at(newaxis, 1, newaxis, newaxis), {3, 4}, {1, 1, 1, 2}});
  const Tensor most = doubles({1, 2}, {1, 1, 1, 1, 1, 1, 1, 2});
  EXPECT_EQ(most(newaxis, 0).shape(), most.shape());
}

TEST(Index, WholeNumbersOfAnyTypeAreAccepted) {
  const Tensor x = doubles(kTwelve, {3, 4});
  EXPECT_EQ(x(size_t{1}, uint8_t{2}).item<double>(), 7);
  EXPECT_EQ(x[2LL](short{-1}).item<double>(), 12);
}

TEST(Index, VariablesHavePartsToo) {
  const Variable v(doubles(kTwelve, {3, 4}));
  EXPECT_EQ(v[1].to_vector<double>(), (std::vector<double>{5, 6, 7, 8}));
  EXPECT_EQ(v(Slice(), 0).to_vector<double>(), (std::vector<double>{1, 5, 9}));
  GradientTape tape;
  const Tensor g = tape.gradient(v(0, Slice(1, 3)) * 2, v);
  EXPECT_EQ(g.to_vector<double>(), (std::vector<double>{0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Index, OfAnyDtype) {
  for (DType dtype : {DType::float32, DType::float16, DType::uint8, DType::int32, DType::int64}) {
    const Tensor x = cast(doubles(kTwelve, {3, 4}), dtype);
    EXPECT_EQ(cast(x(-1, Slice(2, {})), DType::float64).to_vector<double>(),
              (std::vector<double>{11, 12}));
  }
}

TEST(Index, ABatchAxisThatIsCutIsTracedForEachNumberOfRows) {
  const auto f = function([](const Tensor& x) { return x[-1] + x(0, Slice()); });
  for (int64_t rows : {3, 5, 3}) {
    const Tensor x = reshape(range(0, static_cast<double>(2 * rows)), {rows, 2});
    const auto last = static_cast<float>(2 * rows);
    EXPECT_EQ(f(x).to_vector<float>(), (std::vector<float>{last - 2, last}));
  }
}

TEST(Index, ErrorsNameThePositionAndTheShape) {
  const Tensor x = zeros({3, 4});
  const int64_t least = std::numeric_limits<int64_t>::min();
  const int64_t largest = std::numeric_limits<int64_t>::max();
  for (int64_t position : {int64_t{3}, int64_t{-4}, least, largest}) {
    EXPECT_TRUE(throws<InvalidArgument>(
        [&] { x[position]; }, {"position " + std::to_string(position), "axis 0 of [3,4]"}));
  }
  EXPECT_TRUE(throws<InvalidArgument>([&] { x(0, 4); }, {"position 4", "axis 1 of [3,4]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { x(ellipsis, 4); }, {"position 4", "axis 1 of [3,4]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { x(0, 0, 0); }, {"3 positions", "[3,4]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { x(ellipsis, ellipsis); }, {"2 ellipses", "[3,4]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { x(Slice(0, 3, 0)); }, {"step", "axis 0"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { zeros({})[0]; }, {"1 positions", "[]"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { zeros({0, 2})[0]; }, {"position 0", "axis 0 of [0,2]"}));
}

TEST(Index, StepsOfAnySizeAreTaken) {
  const Tensor x = doubles(kTwelve, {3, 4});
  const int64_t least = std::numeric_limits<int64_t>::min();
  const int64_t largest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(x(Slice({}, {}, largest), 0).to_vector<double>(), (std::vector<double>{1}));
  EXPECT_EQ(x(Slice({}, {}, least), 0).to_vector<double>(), (std::vector<double>{9}));
  EXPECT_EQ(x(Slice(least, largest), 3).to_vector<double>(), (std::vector<double>{4, 8, 12}));
}

}  // namespace
}  // namespace tandem::harness
