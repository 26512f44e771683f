#include <gtest/gtest.h>

#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

const std::vector<double> kSix = {1, 2, 3, 4, 5, 6};

auto joined(int axis) {
  return [axis](const Tensors& t) { return concat(t, axis); };
}

TEST(Joining, ConcatLaysTensorsEndToEnd) {
  const Tensor a = doubles({1, 2, 3, 4}, {2, 2});
  const Tensor b = doubles({5, 6}, {1, 2});
  const Tensor c = doubles({7, 8}, {2, 1});
  check_op({"rows", {a, b}, joined(0), {1, 2, 3, 4, 5, 6}, {3, 2}});
  check_op({"columns", {a, c}, joined(-1), {1, 2, 7, 3, 4, 8}, {2, 3}, true, true});
  check_op({"alone", {a}, joined(0), {1, 2, 3, 4}, {2, 2}});
  check_op({"three", {c, a, c}, joined(1), {7, 1, 2, 7, 8, 3, 4, 8}, {2, 4}});
  check_op({"with itself",
            {a},
            [](const Tensors& t) {
              return concat({t[0], t[0]}, 1);
            },
            {1, 2, 1, 2, 3, 4, 3, 4},
            {2, 4},
            true,
            true});
  check_op({"with nothing", {a, doubles({}, {2, 0})}, joined(1), {1, 2, 3, 4}, {2, 2}, false});
  check_op(
      {"nothing at all", {doubles({}, {0, 2}), doubles({}, {0, 1})}, joined(1), {}, {0, 3}, false});
}

TEST(Joining, ConcatAlongAMiddleAxis) {
  const Tensor a = spread({4, 3, 5});
  const Tensor b = spread({4, 2, 5}, 2);
  const auto x = a.to_vector<double>();
  const auto y = b.to_vector<double>();
  std::vector<double> wanted;
  for (int64_t row = 0; row < 4; ++row) {
    wanted.insert(wanted.end(), x.begin() + row * 15, x.begin() + (row + 1) * 15);
    wanted.insert(wanted.end(), y.begin() + row * 10, y.begin() + (row + 1) * 10);
  }
  check_op({"middle", {a, b}, joined(1), wanted, {4, 5, 5}, true, true});
}

/// The batch's rows, whatever their number, twice.
TEST(Joining, ConcatAlongTheBatchAxisOfATrace) {
  const auto f = function([](const Tensor& x) { return concat({x, x * 2.0}, 0); });
  EXPECT_EQ(f(doubles({1, 2}, {2, 1})).to_vector<double>(), (std::vector<double>{1, 2, 2, 4}));
  EXPECT_EQ(f(doubles({5}, {1, 1})).to_vector<double>(), (std::vector<double>{5, 10}));
  EXPECT_EQ(f.trace_count(), 1);
}

TEST(Joining, ConcatHasEveryDtype) {
  const Tensor x = doubles({0, 1, 1, 0}, {2, 2});
  for (DType dtype :
       {DType::float32, DType::float16, DType::uint8, DType::int32, DType::int64, DType::boolean}) {
    const auto f = [dtype](const Tensors& t) {
      const Tensor as = cast(t[0], dtype);
      return concat({as, as}, 1);
    };
    check_op({std::string(name_of(dtype)), {x}, f, {0, 1, 0, 1, 1, 0, 1, 0}, {2, 4}, false});
  }
}

TEST(Joining, TensorsThatDoNotJoinAreNamed) {
  const Tensor a = fill({2, 2}, 1);
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        concat({a, fill({2, 3}, 1)}, 0);
      },
      {"concat", "[2,2]", "[2,3]", "axis 0"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { concat({a, fill({2}, 1)}, 0); }, {"concat", "[2]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        concat({a, fill({2, 2}, 1, DType::int32)}, 0);
      },
      {"concat", "float32", "int32"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { concat({a}, 2); }, {"concat: axis 2"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { concat({}, 0); }, {"concat: no tensors"}));
}

TEST(Joining, StackAddsAnAxis) {
  const auto along = [](int axis) { return [axis](const Tensors& t) { return stack(t, axis); }; };
  const Tensor a = doubles({1, 2}, {2});
  const Tensor b = doubles({3, 4}, {2});
  check_op({"rows", {a, b}, along(0), {1, 2, 3, 4}, {2, 2}});
  check_op({"columns", {a, b}, along(-1), {1, 3, 2, 4}, {2, 2}, true, true});
  check_op({"scalars", {doubles({1}, {}), doubles({2}, {})}, along(0), {1, 2}, {2}});
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        stack({a, fill({3}, 1, DType::float64)});
      },
      {"stack: shapes differ, [2] and [3]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { stack({a}, 2); }, {"stack: axis 2"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { stack({}); }, {"stack: no tensors"}));
}

TEST(Joining, SplitCutsIntoParts) {
  const Tensor x = doubles(kSix, {2, 3});
  const auto part = [](const std::vector<int64_t>& sizes, size_t which, int axis) {
    return [=](const Tensors& t) { return split(t[0], sizes, axis)[which]; };
  };
  const auto equal_part = [](int parts, size_t which, int axis) {
    return [=](const Tensors& t) { return split(t[0], parts, axis)[which]; };
  };
  check_op({"first columns", {x}, part({1, 2}, 0, 1), {1, 4}, {2, 1}, true, true});
  check_op({"last columns", {x}, part({1, -1}, 1, 1), {2, 3, 5, 6}, {2, 2}, true, true});
  check_op({"third", {x}, equal_part(3, 2, -1), {3, 6}, {2, 1}, true, true});
  check_op({"row", {x}, equal_part(2, 1, 0), {4, 5, 6}, {1, 3}});
  check_op({"whole", {x}, equal_part(1, 0, 1), kSix, {2, 3}, true, true});
  check_op({"nothing", {x}, part({3, 0}, 1, 1), {}, {2, 0}, false});
  EXPECT_TRUE(throws<InvalidArgument>([&] { split(x, 2, 1); },
                                      {"split: axis 1 of [2,3]", "2 equal parts"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        split(x, std::vector<int64_t>{1, 1}, 1);
      },
      {"split: sizes [1,1]", "[2,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        split(x, std::vector<int64_t>{5, -1}, 1);
      },
      {"split: sizes [5,-1]"}));
}

TEST(Joining, UnstackRemovesAnAxis) {
  const Tensor x = doubles(kSix, {2, 3});
  const auto part = [](size_t which, int axis) {
    return [=](const Tensors& t) { return unstack(t[0], axis)[which]; };
  };
  check_op({"column", {x}, part(1, 1), {2, 5}, {2}, true, true});
  check_op({"row", {x}, part(1, 0), {4, 5, 6}, {3}});
  EXPECT_EQ(unstack(x, 1).size(), 3u);
  EXPECT_TRUE(throws<InvalidArgument>([&] { unstack(x, 2); }, {"unstack: axis 2"}));
}

}  // namespace
}  // namespace tandem::harness
