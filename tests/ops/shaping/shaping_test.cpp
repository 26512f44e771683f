#include <gtest/gtest.h>

#include <limits>

#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

const std::vector<double> kSix = {1, 2, 3, 4, 5, 6};

auto permuted(const std::vector<int>& permutation) {
  return [permutation](const Tensors& t) { return transpose(t[0], permutation); };
}

/// Element by element, with positions counted by hand.
std::vector<double> transposed(const Tensor& x, const std::vector<int>& permutation) {
  const auto values = x.to_vector<double>();
  const int rank = x.rank();
  std::vector<int64_t> strides(static_cast<size_t>(rank), 1);
  for (int axis = rank - 2; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] =
        strides[static_cast<size_t>(axis) + 1] * x.shape()[axis + 1];
  }
  std::vector<double> result;
  for (size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t from = 0;
    for (size_t axis = permutation.size(); axis-- > 0;) {
      const int64_t size = x.shape()[permutation[axis]];
      from += rest % size * strides[static_cast<size_t>(permutation[axis])];
      rest /= size;
    }
    result.push_back(values[static_cast<size_t>(from)]);
  }
  return result;
}

TEST(Shaping, ReshapeKeepsTheElements) {
  const auto to = [](const Shape& shape) {
    return [shape](const Tensors& t) { return reshape(t[0], shape); };
  };
  check_op({"flat", {doubles(kSix, {3, 2})}, to({6}), kSix, {6}});
  check_op({"inferred", {doubles(kSix, {3, 2})}, to({-1, 3}), kSix, {2, 3}});
  check_op({"column", {doubles({1, 2}, {2})}, to({-1, 1}), {1, 2}, {2, 1}, true, true});
  check_op({"scalar", {doubles({7}, {1, 1})}, to({}), {7}, {}});
  EXPECT_THROW(reshape(fill({6}, 1), {4}), InvalidArgument);
  EXPECT_THROW(reshape(fill({6}, 1), {-1, 4}), InvalidArgument);
}

TEST(Shaping, OnlyOneNegativeSizeIsASize) {
  EXPECT_TRUE(throws<InvalidArgument>([] { reshape(fill({10}, 1), {-5}); }, {"reshape", "-5"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { reshape(fill({10}, 1), {2, -5}); }, {"reshape", "-5"}));
  const auto f = function([](const Tensor& x) { return reshape(x, {-5}); });
  EXPECT_TRUE(throws<InvalidArgument>([&] { f(fill({5, 2}, 1)); }, {"reshape", "-5"}));
}

TEST(Shaping, AxesOfSizeOneComeAndGo) {
  const auto expand = [](int axis) {
    return [axis](const Tensors& t) { return expand_dims(t[0], axis); };
  };
  const auto without = [](const std::vector<int>& axes) {
    return [axes](const Tensors& t) { return squeeze(t[0], axes); };
  };
  check_op({"first", {doubles(kSix, {3, 2})}, expand(0), kSix, {1, 3, 2}});
  check_op({"last", {doubles(kSix, {3, 2})}, expand(-1), kSix, {3, 2, 1}, true, true});
  check_op({"middle", {doubles(kSix, {3, 2})}, expand(1), kSix, {3, 1, 2}, true, true});
  check_op({"of a scalar", {doubles({7}, {})}, expand(0), {7}, {1}});
  check_op({"all", {doubles(kSix, {1, 6, 1})}, without({}), kSix, {6}});
  check_op({"one", {doubles(kSix, {3, 1, 2, 1})}, without({-1}), kSix, {3, 1, 2}, true, true});
  EXPECT_TRUE(throws<InvalidArgument>([] { expand_dims(fill({2}, 1), 2); },
                                      {"expand_dims: axis 2", "[2]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        squeeze(fill({1, 2}, 1), {1});
      },
      {"squeeze: axis 1 of [1,2]", "size 1"}));
}

TEST(Shaping, TransposeMovesAxes) {
  check_op({"matrix", {doubles(kSix, {2, 3})}, permuted({}), {1, 4, 2, 5, 3, 6}, {3, 2}});
  check_op({"same", {doubles(kSix, {2, 3})}, permuted({0, 1}), kSix, {2, 3}, true, true});
  check_op({"scalar", {doubles({7}, {})}, permuted({}), {7}, {}});
  check_op({"empty", {doubles({}, {0, 3})}, permuted({}), {}, {3, 0}, false});
  const Tensor x = spread({3, 4, 2, 5});
  const std::vector<std::pair<std::vector<int>, Shape>> rows = {
      {{0, 2, 1, 3}, {3, 2, 4, 5}}, {{3, 2, 1, 0}, {5, 2, 4, 3}}, {{1, 0, 3, 2}, {4, 3, 5, 2}},
      {{0, 1, 3, 2}, {3, 4, 5, 2}}, {{2, 3, 0, 1}, {2, 5, 3, 4}}, {{-3, 0, 2, -1}, {4, 3, 2, 5}},
  };
  for (const auto& [permutation, shape] : rows) {
    std::vector<int> positive;
    for (int axis : permutation) positive.push_back(axis < 0 ? axis + 4 : axis);
    check_op({"axes to " + shape.str(),
              {x},
              permuted(permutation),
              transposed(x, positive),
              shape,
              true,
              permutation[0] == 0});
  }
}

TEST(Shaping, LargeTransposesGoByTiles) {
  for (const Shape& shape : {Shape{100, 70}, Shape{64, 32}, Shape{3, 200}, Shape{129, 1}}) {
    const Tensor x = spread(shape);
    check_op({"tiles of " + shape.str(),
              {x},
              permuted({}),
              transposed(x, {1, 0}),
              {shape[1], shape[0]},
              false});
  }
  const Tensor x = spread({3, 40, 5, 37});
  check_op({"inner and outer",
            {x},
            permuted({3, 0, 2, 1}),
            transposed(x, {3, 0, 2, 1}),
            {37, 3, 5, 40},
            false});
  check_op({"rows stay",
            {x},
            permuted({0, 3, 2, 1}),
            transposed(x, {0, 3, 2, 1}),
            {3, 37, 5, 40},
            false,
            true});
}

TEST(Shaping, LargeTransposesOfEverySize) {
  const Tensor x = spread({70, 133});
  for (DType dtype : {DType::float32, DType::int32, DType::bfloat16, DType::uint8}) {
    const Tensor typed = cast(x * 20.0, dtype);
    const Tensor numbers = cast(typed, DType::float64);
    const auto f = [dtype](const Tensors& t) { return transpose(cast(t[0], dtype)); };
    check_op(
        {std::string(name_of(dtype)), {numbers}, f, transposed(numbers, {1, 0}), {133, 70}, false});
  }
}

TEST(Shaping, TransposeHasEveryDtype) {
  const Tensor x = doubles({0, 1, 1, 0, 1, 1}, {2, 3});
  for (DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8, DType::int32,
                      DType::int64, DType::boolean}) {
    const auto f = [dtype](const Tensors& t) { return transpose(cast(t[0], dtype)); };
    check_op({std::string(name_of(dtype)), {x}, f, {0, 0, 1, 1, 1, 1}, {3, 2}, false});
  }
}

TEST(Shaping, BadPermutationsAreNamed) {
  const Tensor x = fill({2, 3}, 1);
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        transpose(x, {0, 0});
      },
      {"transpose: [0,0]", "[2,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { transpose(x, {0}); }, {"transpose: [0]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { transpose(x, {0, 2}); }, {"transpose: axis 2"}));
}

TEST(Shaping, TileRepeatsTheWhole) {
  const auto times = [](const std::vector<int64_t>& multiples) {
    return [multiples](const Tensors& t) { return tile(t[0], multiples); };
  };
  const Tensor x = doubles({1, 2, 3, 4}, {2, 2});
  check_op({"rows", {x}, times({2, 1}), {1, 2, 3, 4, 1, 2, 3, 4}, {4, 2}});
  check_op({"columns", {x}, times({1, 2}), {1, 2, 1, 2, 3, 4, 3, 4}, {2, 4}, true, true});
  check_op({"both", {doubles({1, 2}, {1, 2})}, times({2, 2}), {1, 2, 1, 2, 1, 2, 1, 2}, {2, 4}});
  check_op({"middle",
            {doubles(kSix, {2, 1, 3})},
            times({1, 2, 1}),
            {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6},
            {2, 2, 3},
            true,
            true});
  check_op({"never", {x}, times({1, 0}), {}, {2, 0}, false});
  check_op({"scalar", {doubles({7}, {})}, times({}), {7}, {}});
  EXPECT_TRUE(throws<InvalidArgument>([&] { tile(x, {2}); }, {"tile: multiples [2] for [2,2]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { tile(x, {1, -1}); }, {"tile: multiples [1,-1]"}));
}

TEST(Shaping, CastRoundsLikeC) {
  const auto via = [](DType dtype) {
    return [dtype](const Tensors& t) { return cast(t[0], dtype); };
  };
  const Tensor x = doubles({-1.7, 0.0, 2.5}, {3});
  check_op({"int32", {x}, via(DType::int32), {-1, 0, 2}, {3}, false, true});
  check_op({"int64", {x}, via(DType::int64), {-1, 0, 2}, {3}, false});
  check_op({"bool", {x}, via(DType::boolean), {1, 0, 1}, {3}, false});
  check_op({"float32", {doubles({0.5, -2}, {2})}, via(DType::float32), {0.5, -2}, {2}, false});
}

template <class From, class To>
void expect_saturated(const std::vector<From>& least, const std::vector<From>& greatest) {
  using Limits = std::numeric_limits<To>;
  const From infinity = std::numeric_limits<From>::infinity();
  const From nan = std::numeric_limits<From>::quiet_NaN();
  std::vector<From> x = {-infinity, infinity, nan, From(-0.9), From(1.9)};
  std::vector<To> expected = {Limits::lowest(), Limits::max(), 0, 0, 1};
  x.insert(x.end(), least.begin(), least.end());
  expected.insert(expected.end(), least.size(), Limits::lowest());
  x.insert(x.end(), greatest.begin(), greatest.end());
  expected.insert(expected.end(), greatest.size(), Limits::max());
  for (int64_t copies : {1, 40}) {
    const Tensor many = tile(Tensor::from(x, {static_cast<int64_t>(x.size())}), {copies});
    const auto whole = cast(many, dtype_of<To>).template to_vector<To>();
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_EQ(whole[i], expected[i % x.size()]) << x[i % x.size()];
  }
}

TEST(Shaping, CastSaturatesWhereTheDtypeEnds) {
  expect_saturated<float, uint8_t>({-1, -1.5, -300, -1e30F}, {255.5, 256, 300, 1e30F});
  expect_saturated<double, uint8_t>({-1, -1.5, -300, -1e300}, {255.5, 256, 300, 1e300});
  expect_saturated<float, int32_t>({-0x1p31F, -3e9F, -1e30F}, {0x1p31F, 3e9F, 1e30F});
  expect_saturated<double, int32_t>({-0x1p31, -0x1p31 - 1, -1e300}, {0x1p31 - 1, 0x1p31, 1e300});
  expect_saturated<float, int64_t>({-0x1p63F, -1e30F}, {0x1p63F, 1e30F});
  expect_saturated<double, int64_t>({-0x1p63, -1e300}, {0x1p63, 1e300});
  const Tensor halves = cast(doubles({-1, 300, 70'000}, {3}), DType::float16);
  EXPECT_EQ(cast(halves, DType::uint8).to_vector<uint8_t>(), (std::vector<uint8_t>{0, 255, 255}));
  EXPECT_EQ(fill({2}, -1, DType::uint8).to_vector<uint8_t>(), (std::vector<uint8_t>{0, 0}));
  EXPECT_EQ(fill({}, 1e30, DType::int32).item<int32_t>(), std::numeric_limits<int32_t>::max());
}

TEST(Shaping, CastBetweenWholeNumbersKeepsTheLowestBits) {
  const Tensor x = Tensor::of({-1, 256, 300, -257});
  EXPECT_EQ(cast(x, DType::uint8).to_vector<uint8_t>(), (std::vector<uint8_t>{255, 0, 44, 255}));
  const Tensor wide = Tensor::of({(int64_t{1} << 40) + 5, -(int64_t{1} << 33) - 1});
  EXPECT_EQ(cast(wide, DType::int32).to_vector<int32_t>(), (std::vector<int32_t>{5, -1}));
}

TEST(Shaping, TheGradientOfACastIsCastBack) {
  const Tensor x = Tensor::from({1.f, 2.f}, {2});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = reduce_sum(cast(x, DType::float64) * 3.0);
  EXPECT_EQ(tape.gradient(y, Tensors{x})[0].to_vector<float>(), (std::vector<float>{3, 3}));
}

TEST(Shaping, IdentityPassesGradientsOn) {
  const auto f = [](const Tensors& t) { return identity(t[0]) * t[0]; };
  check_op({"square", {doubles({2, -3}, {2})}, f, {4, 9}, {2}, true, true});
}

TEST(Shaping, NoGradientFlowsThroughStopGradient) {
  const auto gradient = [](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(reduce_sum(stop_gradient(x) * x), Tensors{x})[0];
  };
  const Tensor x = doubles({2, -3}, {2});
  EXPECT_EQ(gradient(x).to_vector<double>(), (std::vector<double>{2, -3}));
  const auto traced = function(gradient);
  EXPECT_EQ(traced(x).to_vector<double>(), (std::vector<double>{2, -3}));
  GradientTape tape;
  tape.watch(x);
  EXPECT_FALSE(tape.gradient(reduce_sum(stop_gradient(x)), Tensors{x})[0].defined());
}

/// One trace serves batches of any size, gradients included.
TEST(Shaping, NoOpNeedsTheNumberOfRows) {
  using Axes = std::vector<int>;
  const std::vector<std::function<Tensor(const Tensor&)>> bodies = {
      [](const Tensor& x) {
        return transpose(x, {2, 0, 1});
      },
      [](const Tensor& x) {
        return transpose(x, {0, 2, 1});
      },
      [](const Tensor& x) {
        return tile(x, {2, 1, 3});
      },
      [](const Tensor& x) { return expand_dims(x, 0); },
      [](const Tensor& x) {
        return concat({x, x}, 1);
      },
      [](const Tensor& x) {
        return stack({x, x}, 1);
      },
      [](const Tensor& x) {
        return stack({x, x}, 0);
      },
      [](const Tensor& x) { return split(x, 2, 1)[1]; },
      [](const Tensor& x) { return unstack(x, 2)[1]; },
      [](const Tensor& x) {
        return strided_slice(x, {{}, {.step = -1}});
      },
      [](const Tensor& x) {
        return pad(x, {{0, 0}, {1, 0}, {0, 2}});
      },
      [](const Tensor& x) {
        return gather(x, Tensor::from({1, 1, 0}, {3}), 1);
      },
      [](const Tensor& x) { return reduce_max(x, {.axes = Axes{0}}); },
      [](const Tensor& x) {
        return reduce_min(x, {.axes = Axes{1, 2}, .keepdims = true});
      },
      [](const Tensor& x) { return reduce_prod(x, {.axes = Axes{1}}); },
      [](const Tensor& x) { return reduce_variance(x, {.axes = Axes{0}}); },
      [](const Tensor& x) { return cumsum(x, {.axis = 1}); },
      [](const Tensor& x) { return cumsum(x, {.axis = 0, .reverse = true}); },
      [](const Tensor& x) { return broadcast_to(x, x.shape().inserted(0, 2)); },
  };
  // Fused calls may round differently.
  const auto expect_near = [](const Tensor& got, const Tensor& wanted, size_t body) {
    ASSERT_EQ(got.shape(), wanted.shape()) << body;
    const auto a = got.to_vector<double>(), b = wanted.to_vector<double>();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-13) << body;
  };
  for (size_t i = 0; i < bodies.size(); ++i) {
    const auto gradient = [&](const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = bodies[i](x);
      return tape.gradient(reduce_sum(y * y), Tensors{x})[0];
    };
    const auto value = function(bodies[i]);
    const auto slope = function(gradient);
    for (int64_t rows : {5, 2, 1}) {
      const Tensor x = spread({rows, 4, 3});
      expect_near(value(x), bodies[i](x), i);
      expect_near(slope(x), gradient(x), i);
    }
    EXPECT_EQ(value.trace_count(), 1) << i;
    EXPECT_EQ(slope.trace_count(), 1) << i;
  }
}

TEST(Shaping, ViewsCostNothingInAProgram) {
  const auto f = function([](const Tensor& x) {
    return relu(stop_gradient(identity(expand_dims(squeeze(relu(x)), 0))));
  });
  f(fill({4, 1, 2}, 1));
  for (const char* name : {"identity", "stop_gradient", "reshape"}) {
    EXPECT_EQ(f.explain().find(name), std::string::npos) << f.explain();
  }
}

}  // namespace
}  // namespace tandem::harness
