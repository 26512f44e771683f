#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/fresh_devices.h"
#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

using Axes = std::vector<int>;
const std::vector<double> kSix = {1, 2, 3, 4, 5, 6};
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

using ReduceFn = Tensor (*)(const Tensor&, const ReduceOptions&);

auto over(ReduceFn reduce, std::optional<Axes> axes = {}, bool keepdims = false) {
  return [=](const Tensors& t) { return reduce(t[0], {.axes = axes, .keepdims = keepdims}); };
}

TEST(Reduction, SumsOverAnyAxes) {
  const auto over = [](std::optional<Axes> axes, bool keepdims = false) {
    return harness::over(reduce_sum, axes, keepdims);
  };
  const Tensor x = doubles(kSix, {3, 2});
  check_op({"all", {x}, over({}), {21}, {}});
  check_op({"columns", {x}, over(Axes{0}), {9, 12}, {2}});
  check_op({"rows", {x}, over(Axes{-1}), {3, 7, 11}, {3}, true, true});
  check_op({"kept", {x}, over(Axes{0}, true), {9, 12}, {1, 2}});
  check_op({"none", {x}, over(Axes{}), kSix, {3, 2}});
  const Tensor cube = doubles({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  check_op({"outer and inner", {cube}, over(Axes{0, 2}), {14, 22}, {2}});
  check_op({"middle", {cube}, over(Axes{1}), {4, 6, 12, 14}, {2, 2}, true, true});
  check_op({"no rows", {doubles({}, {0, 2})}, over(Axes{0}), {0, 0}, {2}, false});
}

TEST(Reduction, MeansDivideByWhatMeets) {
  const auto f = [](const Tensors& t) { return reduce_mean(t[0], {.axes = Axes{0}}); };
  check_op({"columns", {doubles(kSix, {3, 2})}, f, {3, 4}, {2}});
  const auto all = [](const Tensors& t) { return reduce_mean(t[0]); };
  check_op({"all", {doubles(kSix, {3, 2})}, all, {3.5}, {}});
  check_op({"nothing", {doubles({}, {0})}, all, {kNaN}, {}, false});
}

TEST(Reduction, TheAverageLossOutsideAStrategyIsTheMean) {
  const auto f = [](const Tensors& t) { return compute_average_loss(t[0]); };
  check_op({"average", {doubles(kSix, {6})}, f, {3.5}, {}});
  check_op({"per token", {doubles(kSix, {3, 2})}, f, {3.5}, {}});
}

TEST(Reduction, BroadcastRepeats) {
  const auto to = [](const Shape& shape) {
    return [shape](const Tensors& t) { return broadcast_to(t[0], shape); };
  };
  check_op({"row", {doubles({1, 2}, {2})}, to({3, 2}), {1, 2, 1, 2, 1, 2}, {3, 2}});
  check_op({"scalar", {doubles({5}, {})}, to({2, 2}), {5, 5, 5, 5}, {2, 2}});
  check_op({"column", {doubles({1, 2}, {2, 1})}, to({2, 3}), {1, 1, 1, 2, 2, 2}, {2, 3}});
  EXPECT_THROW(broadcast_to(fill({3}, 1), {2}), InvalidArgument);
  EXPECT_THROW(broadcast_to(fill({2, 3}, 1), {3}), InvalidArgument);
}

TEST(Reduction, WholeNumbersAreSummed) {
  const Tensor x = doubles(kSix, {3, 2});
  for (DType dtype : {DType::int32, DType::int64}) {
    const auto along = [dtype](const Axes& axes) {
      return [=](const Tensors& t) { return reduce_sum(cast(t[0], dtype), {.axes = axes}); };
    };
    check_op({"columns", {x}, along({0}), {9, 12}, {2}, false});
    check_op({"rows", {x}, along({1}), {3, 7, 11}, {3}, false, true});
  }
  const Tensor most = Tensor::from({std::numeric_limits<int32_t>::max(), 1}, {2});
  EXPECT_EQ(reduce_sum(most).item<int32_t>(), std::numeric_limits<int32_t>::min());
}

TEST(Reduction, TheLargestAndTheSmallest) {
  const Tensor x = doubles({1, -5, 4, 3, 0, -2}, {3, 2});
  check_op({"all", {x}, over(reduce_max), {4}, {}});
  check_op({"columns", {x}, over(reduce_max, Axes{0}), {4, 3}, {2}});
  check_op({"rows", {x}, over(reduce_max, Axes{1}, true), {1, 4, 0}, {3, 1}, true, true});
  check_op({"least", {x}, over(reduce_min), {-5}, {}});
  check_op({"least of rows", {x}, over(reduce_min, Axes{-1}), {-5, 3, -2}, {3}, true, true});
  check_op({"least of columns", {x}, over(reduce_min, Axes{0}), {0, -5}, {2}});
  check_op({"no axes", {x}, over(reduce_max, Axes{}), x.to_vector<double>(), {3, 2}, true, true});
  check_op(
      {"nothing", {doubles({}, {0, 2})}, over(reduce_max, Axes{0}), {-kInf, -kInf}, {2}, false});
  check_op({"least of nothing", {doubles({}, {0})}, over(reduce_min), {kInf}, {}, false});
  check_op({"infinite", {doubles({-kInf, -kInf}, {2})}, over(reduce_max), {-kInf}, {}, false});
}

/// Wherever it stands: in whole vectors, in what is left over, alone.
TEST(Reduction, OneNaNIsEnough) {
  for (int64_t rows : {1, 3, 40}) {
    for (int64_t at : {int64_t{0}, rows * 21 / 2, rows * 21 - 1}) {
      auto values = spread({rows, 21}).to_vector<double>();
      values[static_cast<size_t>(at)] = kNaN;
      const Tensor x = doubles(values, {rows, 21});
      for (ReduceFn reduce : {reduce_max, reduce_min, reduce_sum, reduce_prod}) {
        for (const Axes& axes : {Axes{0}, Axes{1}, Axes{0, 1}}) {
          const auto got = reduce(x, {.axes = axes}).to_vector<double>();
          const int64_t hit = axes.size() == 2 ? 0 : (axes[0] == 0 ? at % 21 : at / 21);
          for (int64_t i = 0; i < static_cast<int64_t>(got.size()); ++i) {
            EXPECT_EQ(std::isnan(got[static_cast<size_t>(i)]), i == hit) << i << " of " << rows;
          }
          const auto narrow = reduce(cast(x, DType::float32), {.axes = axes}).to_vector<float>();
          EXPECT_TRUE(std::isnan(narrow[static_cast<size_t>(hit)]));
        }
      }
    }
  }
}

TEST(Reduction, TiesShareTheGradient) {
  const auto gradient = [](ReduceFn reduce, const Tensor& x, const Axes& axes) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = reduce(x, {.axes = axes, .keepdims = false});
    return tape.gradient(reduce_sum(y), Tensors{x})[0].to_vector<double>();
  };
  const Tensor x = doubles({2, 1, 2, 0, 0, 0}, {2, 3});
  EXPECT_EQ(gradient(reduce_max, x, {1}),
            (std::vector<double>{0.5, 0, 0.5, 1. / 3, 1. / 3, 1. / 3}));
  EXPECT_EQ(gradient(reduce_min, x, {1}), (std::vector<double>{0, 1, 0, 1. / 3, 1. / 3, 1. / 3}));
  EXPECT_EQ(gradient(reduce_max, x, {0, 1}), (std::vector<double>{0.5, 0, 0.5, 0, 0, 0}));
  EXPECT_EQ(gradient(reduce_max, doubles({kNaN, 1}, {2}), {0}), (std::vector<double>{0, 0}));
}

TEST(Reduction, ExtremesOfWholeNumbers) {
  const Tensor x = doubles({7, 1, 4, 3, 9, 2}, {3, 2});
  for (DType dtype : {DType::int32, DType::int64, DType::uint8}) {
    const auto f = [dtype](ReduceFn reduce, const Axes& axes) {
      return [=](const Tensors& t) { return reduce(cast(t[0], dtype), {.axes = axes}); };
    };
    check_op({"largest", {x}, f(reduce_max, {0}), {9, 3}, {2}, false});
    check_op({"smallest", {x}, f(reduce_min, {1}), {1, 3, 2}, {3}, false, true});
  }
  EXPECT_EQ(reduce_max(zeros({0}, DType::int32)).item<int32_t>(),
            std::numeric_limits<int32_t>::lowest());
  EXPECT_EQ(reduce_min(zeros({0}, DType::uint8)).item<uint8_t>(), 255);
}

TEST(Reduction, ProductsMultiply) {
  const Tensor x = doubles(kSix, {3, 2});
  check_op({"all", {x}, over(reduce_prod), {720}, {}});
  check_op({"columns", {x}, over(reduce_prod, Axes{0}), {15, 48}, {2}});
  check_op({"rows", {x}, over(reduce_prod, Axes{1}, true), {2, 12, 30}, {3, 1}, true, true});
  check_op({"none", {x}, over(reduce_prod, Axes{}), kSix, {3, 2}, true, true});
  check_op({"nothing", {doubles({}, {0, 2})}, over(reduce_prod, Axes{0}), {1, 1}, {2}, false});
  check_op({"a zero", {doubles({2, 0, 3}, {3})}, over(reduce_prod), {0}, {}});
  check_op({"two zeros", {doubles({0, 2, 0, 3, 4, 0, 5}, {7})}, over(reduce_prod), {0}, {}});
  const Tensor cube = spread({2, 3, 3});
  const auto v = cube.to_vector<double>();
  std::vector<double> wanted(3, 1);
  for (size_t i = 0; i < v.size(); ++i) wanted[i / 3 % 3] *= v[i];
  check_op({"outer and inner", {cube}, over(reduce_prod, Axes{0, 2}), wanted, {3}});
  EXPECT_EQ(reduce_prod(Tensor::from({2, 3, 7}, {3})).item<int32_t>(), 42);
}

TEST(Reduction, ProductsHaveSecondDerivatives) {
  const auto f = [](const Tensors& t) {
    GradientTape tape;
    tape.watch(t[0]);
    return tape.gradient(reduce_prod(t[0]), Tensors{t[0]})[0];
  };
  check_op({"others", {doubles({2, 0, 3}, {3})}, f, {0, 6, 0}, {3}});
}

TEST(Reduction, AnyAndAll) {
  const Tensor x = doubles({0, 1, 0, 0, 1, 1}, {3, 2});
  const auto of = [](ReduceFn reduce, std::optional<Axes> axes) {
    return [=](const Tensors& t) { return reduce(cast(t[0], DType::boolean), {.axes = axes}); };
  };
  check_op({"any of rows", {x}, of(reduce_any, Axes{1}), {1, 0, 1}, {3}, false, true});
  check_op({"all of rows", {x}, of(reduce_all, Axes{1}), {0, 0, 1}, {3}, false, true});
  check_op({"any of columns", {x}, of(reduce_any, Axes{0}), {1, 1}, {2}, false});
  check_op({"all", {x}, of(reduce_all, {}), {0}, {}, false});
  check_op({"any of nothing", {doubles({}, {0})}, of(reduce_any, {}), {0}, {}, false});
  check_op({"all of nothing", {doubles({}, {0, 2})}, of(reduce_all, Axes{0}), {1, 1}, {2}, false});
  EXPECT_TRUE(throws<InvalidArgument>([] { reduce_any(fill({2}, 1)); },
                                      {"reduce_any: float32 is not supported; bool is"}));
}

TEST(Reduction, VarianceIsTheMeanSquaredDistance) {
  const Tensor x = doubles({1, 5, 2, 2, 9, -1}, {3, 2});
  check_op({"all", {x}, over(reduce_variance), {31. / 3}, {}});
  check_op({"rows", {x}, over(reduce_variance, Axes{1}), {4, 0, 25}, {3}, true, true});
  check_op({"columns", {x}, over(reduce_variance, Axes{0}, true), {38. / 3, 6}, {1, 2}});
  const Tensor far = doubles({1e9, 1e9 + 2}, {2});
  check_op({"far from zero", {far}, over(reduce_variance), {1}, {}, false, false, 1e-12, 0});
}

TEST(Reduction, TheDeviationIsTheRootOfTheVariance) {
  const Tensor x = doubles({1, 5, 2, 6, 9, -1}, {3, 2});
  check_op({"rows", {x}, over(reduce_std, Axes{1}), {2, 2, 5}, {3}, true, true});
  check_op({"all", {doubles({1, 3, 1, 3}, {2, 2})}, over(reduce_std, {}, true), {1}, {1, 1}});
}

TEST(Reduction, LogsumexpDoesNotOverflow) {
  const double two = std::log(2.0);
  const Tensor x = doubles({0, 0, 1, 1, -3, -3}, {3, 2});
  check_op(
      {"rows", {x}, over(reduce_logsumexp, Axes{1}), {two, 1 + two, -3 + two}, {3}, true, true});
  check_op({"kept",
            {x},
            over(reduce_logsumexp, Axes{-1}, true),
            {two, 1 + two, -3 + two},
            {3, 1},
            true,
            true});
  const double sum = 2 + 2 * std::exp(1) + 2 * std::exp(-3);
  check_op({"all", {x}, over(reduce_logsumexp), {std::log(sum)}, {}});
  const Tensor far = doubles({1e4, 1e4, -1e4, -1e4}, {2, 2});
  check_op(
      {"far", {far}, over(reduce_logsumexp, Axes{1}), {1e4 + two, -1e4 + two}, {2}, false, true});
  const Tensor odd = doubles({-kInf, -kInf, kInf, 0, kNaN, 0}, {3, 2});
  check_op({"not finite",
            {odd},
            over(reduce_logsumexp, Axes{1}),
            {-kInf, kInf, kNaN},
            {3},
            false,
            true});
  check_op({"nothing", {doubles({}, {0})}, over(reduce_logsumexp), {-kInf}, {}, false});
  EXPECT_TRUE(throws<InvalidArgument>([] { reduce_logsumexp(fill({2}, 1), {.axes = Axes{1}}); },
                                      {"reduce_logsumexp: axis 1", "[2]"}));
}

TEST(Reduction, AxesAreWrittenInManyWays) {
  const Tensor x = ones({2, 3, 4});
  EXPECT_EQ(reduce_sum(x, {.axes = {0}}).shape(), (Shape{3, 4}));
  EXPECT_EQ(reduce_sum(x, {.axes = {0, -1}}).shape(), (Shape{3}));
  EXPECT_EQ(reduce_sum(x, {.axes = {{0}}}).shape(), (Shape{3, 4}));
  EXPECT_EQ(reduce_sum(x, {.axes = {{0, 1}}}).shape(), (Shape{4}));
  EXPECT_EQ(reduce_sum(x, {.axes = 1}).shape(), (Shape{2, 4}));
  EXPECT_EQ(reduce_sum(x, {.axes = std::vector<int>{2}}).shape(), (Shape{2, 3}));
  EXPECT_EQ(reduce_sum(x, {.axes = {1}, .keepdims = true}).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(reduce_sum(x, {{0, 2}}).shape(), (Shape{3}));
  EXPECT_EQ(reduce_sum(x, {.axes = {}}).shape(), Shape());
  EXPECT_EQ(reduce_sum(x, {.axes = std::vector<int>{}}).shape(), x.shape());
}

TEST(Reduction, ArgmaxTakesTheFirstOfEquals) {
  const Tensor x = doubles({1, 5, 5, 7, 2, 7}, {2, 3});
  const auto along = [](int axis) {
    return [axis](const Tensors& t) { return argmax(t[0], axis); };
  };
  check_op({"last", {x}, along(-1), {1, 0}, {2}, false, true});
  check_op({"first", {x}, along(0), {1, 0, 1}, {3}, false});
  check_op({"middle",
            {doubles({1, 5, 3, 2, 0, 4, 6, 4}, {2, 2, 2})},
            along(1),
            {1, 0, 1, 0},
            {2, 2},
            false,
            true});
  const auto least = [](const Tensors& t) { return argmin(t[0], 1); };
  check_op({"least", {x}, least, {0, 1}, {2}, false, true});
  check_op({"least of columns",
            {x},
            [](const Tensors& t) { return argmin(t[0], 0); },
            {0, 1, 0},
            {3},
            false});
  EXPECT_EQ(argmax(Tensor::from<uint8_t>({3, 200, 7}, {3})).item<int64_t>(), 1);
  EXPECT_TRUE(throws<InvalidArgument>([&] { argmax(x, 2); }, {"argmax: axis 2", "[2,3]"}));
  const auto best_row = function([](const Tensor& rows) { return argmax(rows, 0); });
  EXPECT_EQ(best_row(x).shape(), (Shape{3}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { best_row(x.rows(0, 0)); }, {"argmax", "no rows"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        argmin(fill({2, 0}, 1), 1);
      },
      {"argmin: axis 1 of [2,0] has no elements"}));
}

TEST(Reduction, ArgmaxPassesOverNaN) {
  const auto best = [](const Tensors& t) { return argmax(t[0], -1); };
  const auto least = [](const Tensors& t) { return argmin(t[0], -1); };
  const auto of_columns = [](const Tensors& t) { return argmax(t[0], 0); };
  const Tensor x = doubles({1, kNaN, 3, kNaN, 2, 1, 3, 2, kNaN, kNaN, kNaN, kNaN}, {4, 3});
  check_op({"largest", {x}, best, {2, 1, 0, 0}, {4}, false, true});
  check_op({"smallest", {x}, least, {0, 2, 1, 0}, {4}, false, true});
  check_op({"in columns", {x}, of_columns, {2, 1, 0}, {3}, false});
  check_op({"infinities", {doubles({kNaN, -kInf, kNaN}, {3})}, best, {1}, {}, false});
}

TEST(Reduction, ManyColumnsAreSearchedTogether) {
  const Tensor x = spread({5, 600});
  const auto v = x.to_vector<double>();
  std::vector<double> wanted;
  for (size_t c = 0; c < 600; ++c) {
    size_t best = 0;
    for (size_t r = 1; r < 5; ++r) best = v[r * 600 + c] > v[best * 600 + c] ? r : best;
    wanted.push_back(static_cast<double>(best));
  }
  check_op(
      {"columns", {x}, [](const Tensors& t) { return argmax(t[0], 0); }, wanted, {600}, false});
}

TEST(Reduction, RunningSums) {
  const auto with = [](const CumsumOptions& options) {
    return [options](const Tensors& t) { return cumsum(t[0], options); };
  };
  const Tensor x = doubles(kSix, {2, 3});
  check_op({"rows", {x}, with({.axis = 1}), {1, 3, 6, 4, 9, 15}, {2, 3}, true, true});
  check_op({"columns", {x}, with({}), {1, 2, 3, 5, 7, 9}, {2, 3}});
  check_op({"exclusive",
            {x},
            with({.axis = -1, .exclusive = true}),
            {0, 1, 3, 0, 4, 9},
            {2, 3},
            true,
            true});
  check_op({"reverse",
            {x},
            with({.axis = 1, .reverse = true}),
            {6, 5, 3, 15, 11, 6},
            {2, 3},
            true,
            true});
  check_op({"both",
            {x},
            with({.axis = 1, .exclusive = true, .reverse = true}),
            {5, 3, 0, 11, 6, 0},
            {2, 3},
            true,
            true});
  check_op({"columns up", {x}, with({.reverse = true}), {5, 7, 9, 4, 5, 6}, {2, 3}});
  const Tensor cube = doubles({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  check_op(
      {"middle", {cube}, with({.axis = 1}), {1, 2, 4, 6, 5, 6, 12, 14}, {2, 2, 2}, true, true});
  check_op({"nothing", {doubles({}, {0, 3})}, with({}), {}, {0, 3}, false});
  EXPECT_EQ(cumsum(Tensor::from({1, 2, 3}, {3})).to_vector<int32_t>(),
            (std::vector<int32_t>{1, 3, 6}));
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { cumsum(x, {.axis = 2}); }, {"cumsum: axis 2", "[2,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { cumsum(fill({2}, 1, DType::boolean)); },
                                      {"cumsum: bool is not supported"}));
}

/// Large enough that the threads share the input and meet.
TEST(Reduction, ThreadsThatMeetGiveTheSame) {
  for (const Shape& shape : {Shape{70001}, Shape{1, 70001}, Shape{9001, 10}, Shape{300, 1, 401}}) {
    const Tensor x = spread(shape);
    const auto v = x.to_vector<double>();
    const auto columns = static_cast<size_t>(shape[shape.rank() - 1]);
    double sum = 0;
    double most = -kInf;
    std::vector<double> sums(columns), least(columns, kInf);
    for (size_t i = 0; i < v.size(); ++i) {
      sum += v[i];
      most = std::max(most, v[i]);
      sums[i % columns] += v[i];
      least[i % columns] = std::min(least[i % columns], v[i]);
    }
    Axes leading(static_cast<size_t>(shape.rank()) - 1);
    for (size_t axis = 0; axis < leading.size(); ++axis) leading[axis] = static_cast<int>(axis);
    Shape kept = shape;
    for (int axis : leading) kept = kept.with(axis, 1);
    const std::string name = shape.str();
    check_op({name + " sum", {x}, over(reduce_sum), {sum}, {}, false, false, 1e-9});
    check_op({name + " max", {x}, over(reduce_max), {most}, {}, false});
    check_op(
        {name + " sums", {x}, over(reduce_sum, leading, true), sums, kept, false, false, 1e-9});
    check_op({name + " min", {x}, over(reduce_min, leading, true), least, kept, false});
  }
  const auto mean = [](const Tensors& t) { return reduce_mean(t[0], {.axes = Axes{0, 1}}); };
  check_op({"mean", {ones({200, 400, 3}, DType::float64)}, mean, {1, 1, 1}, {3}, false});
}

/// The parts are joined in their order, whichever thread is the first.
TEST(Reduction, ThreadsThatMeetGiveTheSameEachTime) {
  devices::reset_devices();
  config::set_logical_cpus({{.threads = 3}});
  const Tensor x = cast(spread({100003}), DType::float32);
  const float first = reduce_sum(x).item<float>();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(reduce_sum(x).item<float>(), first);
  devices::reset_devices();
}

TEST(Reduction, BadAxesAreNamed) {
  EXPECT_THROW(reduce_sum(fill({2}, 1), {.axes = Axes{1}}), InvalidArgument);
  EXPECT_THROW(reduce_sum(fill({2, 2}, 1), {.axes = Axes{0, -2}}), InvalidArgument);
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        reduce_sum(fill({2, 2}, 1), {.axes = Axes{0, -2}});
      },
      {"reduce_sum: axes [0,-2] of [2,2] name one twice"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { reduce_max(fill({2}, 1), {.axes = Axes{1}}); },
                                      {"reduce_max: axis 1", "[2]"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { reduce_mean(fill({2}, 1, DType::int32)); },
                                      {"reduce_mean: int32 is not supported", "float32"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { reduce_prod(fill({2}, 1, DType::boolean)); },
                                      {"reduce_prod: bool is not supported"}));
}

}  // namespace
}  // namespace tandem::harness
