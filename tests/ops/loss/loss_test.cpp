#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

/// log(sum of exp(row)) - row[j] for every j.
std::vector<double> costs_of(const double* row, size_t classes) {
  const double largest = *std::max_element(row, row + classes);
  double sum = 0;
  for (size_t j = 0; j < classes; ++j) sum += std::exp(row[j] - largest);
  std::vector<double> costs;
  for (size_t j = 0; j < classes; ++j) costs.push_back(std::log(sum) + largest - row[j]);
  return costs;
}

void expect_near(const Tensor& got, const Tensor& wanted) {
  const auto a = got.to_vector<double>();
  const auto b = wanted.to_vector<double>();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12);
}

Shape lines_of(const Shape& shape) { return shape.without(shape.rank() - 1); }

/// Differentiable in logits and labels.
OpRow dense_row(const std::string& name, const Tensor& logits, const Tensor& labels) {
  const auto z = logits.to_vector<double>();
  const auto y = labels.to_vector<double>();
  const auto classes = static_cast<size_t>(logits.shape()[logits.rank() - 1]);
  std::vector<double> expected;
  for (size_t r = 0; r * classes < z.size(); ++r) {
    const auto costs = costs_of(&z[r * classes], classes);
    double loss = 0;
    for (size_t j = 0; j < classes; ++j) loss += y[r * classes + j] * costs[j];
    expected.push_back(loss);
  }
  return {.name = name,
          .inputs = {logits, labels},
          .f = [](const Tensors& t) { return softmax_cross_entropy_with_logits(t[1], t[0]); },
          .expected = expected,
          .shape = lines_of(logits.shape()),
          .follows_rows = logits.rank() > 1 && logits.shape()[0] > 1};
}

TEST(Loss, CrossEntropyOfSmallAndLargeRows) {
  for (int64_t classes : {1, 2, 3, 4, 5, 7, 8, 10, 16, 17, 33}) {
    for (int64_t rows : {1, 3, 20}) {
      Tensor labels = fill({rows, classes}, 1.0 / static_cast<double>(classes), DType::float64);
      check_op(dense_row("classes " + std::to_string(classes), spread({rows, classes}, 5), labels));
    }
  }
}

TEST(Loss, LabelsNeedNotSumToOne) {
  check_op(dense_row("weights", spread({4, 10}, 5), spread({4, 10}, 6)));
  check_op(dense_row("weights", spread({4, 20}, 5), spread({4, 20}, 6)));
}

TEST(Loss, LabelsThatAreTakenToSumToOneHaveTheGradientOfTensorFlow) {
  for (int64_t classes : {3, 10, 20, 40}) {
    const Tensor logits = spread({20, classes}, 5);
    const Tensor labels = spread({20, classes}, 6) + 1.0;
    GradientTape outer({.persistent = true});
    outer.watch(logits);
    outer.watch(labels);
    GradientTape tape;
    tape.watch(logits);
    const Tensor loss =
        softmax_cross_entropy_with_logits(labels, logits, {.labels_sum_to_one = true});
    EXPECT_EQ(loss.to_vector<double>(),
              softmax_cross_entropy_with_logits(labels, logits).to_vector<double>());
    const Tensor gradient = tape.gradient(reduce_sum(loss), Tensors{logits})[0];
    expect_near(gradient, softmax(logits) - labels);
    // The derivatives of what the gradient is, by both.
    const Tensor weights = spread({20, classes}, 7);
    GradientTape expected;
    expected.watch(logits);
    const Tensor p = softmax(logits);
    const Tensor sum = reduce_sum(gradient * weights);
    expect_near(outer.gradient(sum, Tensors{logits})[0],
                expected.gradient(reduce_sum(p * weights), Tensors{logits})[0]);
    expect_near(outer.gradient(sum, Tensors{labels})[0], weights * -1.0);
  }
}

TEST(Loss, CrossEntropyTakesAnyLeadingAxes) {
  check_op(dense_row("sequence", spread({2, 3, 4}, 5), spread({2, 3, 4}, 6)));
  check_op(dense_row("one line", spread({4}, 5), spread({4}, 6)));
}

TEST(Loss, LargeLogitsDoNotOverflow) {
  const Tensor logits = doubles({1000, -1000, 0, -800, -900, -1000}, {2, 3});
  check_op(dense_row("large", logits, doubles({1, 0, 0, 0, 0, 1}, {2, 3})));
}

TEST(Loss, NotANumberSpoilsItsRowOnly) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto row =
      dense_row("nan", doubles({1, nan, 3, 1, 2, 3}, {2, 3}), fill({2, 3}, 0.5, DType::float64));
  row.differentiable = false;
  EXPECT_TRUE(std::isnan(row.expected[0]) && !std::isnan(row.expected[1]));
  check_op(row);
}

TEST(Loss, NoRowsHaveNoLoss) {
  const auto row = dense_row("empty", doubles({}, {0, 3}), doubles({}, {0, 3}));
  EXPECT_TRUE(row.expected.empty());
  check_op(row);
  EXPECT_EQ(softmax_cross_entropy_with_logits(fill({2, 0}, 1), fill({2, 0}, 1)).to_vector<float>(),
            (std::vector<float>{0, 0}));
}

TEST(Loss, Float32AgreesWithFloat64) {
  for (int64_t classes : {1, 2, 3, 5, 8, 10, 16, 17, 100}) {
    const Tensor logits = spread({37, classes}, 5) * 10.0;
    const Tensor labels = softmax(spread({37, classes}, 6));
    const auto row = dense_row("float32", logits, labels);
    const Tensor z = cast(logits, DType::float32);
    GradientTape tape;
    tape.watch(z);
    const Tensor loss = softmax_cross_entropy_with_logits(cast(labels, DType::float32), z);
    const auto got = loss.to_vector<float>();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], row.expected[i], 1e-4) << classes;
    const auto gradient = tape.gradient(reduce_sum(loss), Tensors{z})[0].to_vector<float>();
    const auto wanted = (softmax(logits) - labels).to_vector<double>();
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(gradient[i], wanted[i], 1e-5);
  }
}

template <class Label>
OpRow sparse_row(const Tensor& logits, const std::vector<Label>& labels) {
  const auto z = logits.to_vector<double>();
  const auto classes = static_cast<size_t>(logits.shape()[logits.rank() - 1]);
  std::vector<double> expected;
  for (size_t r = 0; r < labels.size(); ++r) {
    expected.push_back(costs_of(&z[r * classes], classes)[static_cast<size_t>(labels[r])]);
  }
  const Shape lines = lines_of(logits.shape());
  return {
      .name = "sparse " + logits.shape().str(),
      .inputs = {logits, Tensor::from(labels, lines)},
      .f = [](const Tensors& t) { return sparse_softmax_cross_entropy_with_logits(t[1], t[0]); },
      .expected = expected,
      .shape = lines,
      .follows_rows = lines.rank() > 0 && lines[0] > 1};
}

TEST(Loss, SparseLabelsPickOneClass) {
  check_op(sparse_row<int32_t>(spread({4, 3}, 5), {0, 2, 1, 2}));
  check_op(sparse_row<int64_t>(spread({4, 3}, 5), {0, 2, 1, 2}));
  check_op(sparse_row<int64_t>(spread({2, 2, 17}, 5), {0, 16, 8, 7}));
  check_op(sparse_row<int32_t>(spread({5}, 5), {3}));
  check_op(sparse_row<int32_t>(doubles({}, {0, 3}), {}));
  check_op(sparse_row<int32_t>(doubles({1000, -1000, 0, -800, -900, -1000}, {2, 3}), {1, 0}));
}

OpRow sigmoid_row(const Tensor& logits, const Tensor& labels) {
  const auto x = logits.to_vector<double>();
  const auto y = labels.to_vector<double>();
  std::vector<double> expected;
  for (size_t i = 0; i < x.size(); ++i) {
    expected.push_back(std::max(x[i], 0.0) - x[i] * y[i] + std::log1p(std::exp(-std::abs(x[i]))));
  }
  return {.name = "sigmoid " + logits.shape().str(),
          .inputs = {logits, labels},
          .f = [](const Tensors& t) { return sigmoid_cross_entropy_with_logits(t[1], t[0]); },
          .expected = expected,
          .shape = logits.shape(),
          .follows_rows = logits.rank() > 0 && logits.shape()[0] > 1};
}

TEST(Loss, SigmoidCrossEntropy) {
  check_op(sigmoid_row(spread({4, 5}, 5), spread({4, 5}, 6)));
  check_op(sigmoid_row(doubles({0.5}, {}), doubles({1}, {})));
  check_op(sigmoid_row(doubles({}, {0, 2}), doubles({}, {0, 2})));
  check_op(sigmoid_row(doubles({1000, -1000, 40, -40, 0}, {5}), doubles({0, 1, 1, 0, 0.5}, {5})));
  auto nan = sigmoid_row(doubles({std::numeric_limits<double>::quiet_NaN(), 1}, {2}),
                         doubles({0, 1}, {2}));
  nan.differentiable = false;
  check_op(nan);
}

/// The gradient of a sum of squared losses is checked by differences in logits and labels.
TEST(Loss, SecondDerivatives) {
  const Shape shape{3, 4};
  const Tensor logits = spread(shape, 5);
  const Tensor labels = spread(shape, 6);
  const auto gradient_of = [](const std::function<Tensor(const Tensors&)>& loss, size_t by) {
    return [=](const Tensors& t) {
      GradientTape tape;
      tape.watch(t[by]);
      const Tensor l = loss(t);
      return tape.gradient(reduce_sum(l * l * 0.5), Tensors{t[by]})[0];
    };
  };
  const auto check = [&](const OpRow& row, const Tensor& derivative, size_t by) {
    // The loss times its derivative, both from definitions.
    auto expected = derivative.to_vector<double>();
    const size_t per_loss = expected.size() / row.expected.size();
    for (size_t i = 0; i < expected.size(); ++i) expected[i] *= row.expected[i / per_loss];
    check_op({.name = "gradient of " + row.name,
              .inputs = row.inputs,
              .f = gradient_of(row.f, by),
              .expected = expected,
              .shape = shape});
  };
  const Tensor sums = reduce_sum(labels, {.axes = {{1}}, .keepdims = true});
  check(dense_row("softmax", logits, labels), softmax(logits) * sums - labels, 0);
  check(dense_row("softmax", logits, labels), log_softmax(logits) * -1.0, 1);
  const Tensor one_hot = doubles({1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0}, shape);
  check(sparse_row<int32_t>(logits, {0, 3, 1}), softmax(logits) - one_hot, 0);
  const Tensor pairs = softmax(reshape(logits, {12, 1}) * doubles({1, 0}, {1, 2}));
  const Tensor sigmoid =
      reshape(reduce_sum(pairs * doubles({1, 0}, {1, 2}), {.axes = {{1}}}), shape);
  check(sigmoid_row(logits, labels), sigmoid - labels, 0);
  check(sigmoid_row(logits, labels), logits * -1.0, 1);
}

TEST(Loss, LabelsOutOfRangeAreNamed) {
  const Tensor logits = fill({3, 4}, 1);
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        sparse_softmax_cross_entropy_with_logits(Tensor::from<int32_t>({0, 4, 1}, {3}), logits);
      },
      {"sparse_softmax_cross_entropy_with_logits: label 4 of row 1 is not within the 4 classes"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        sparse_softmax_cross_entropy_with_logits(Tensor::from<int64_t>({0, 0, -1}, {3}), logits);
      },
      {"label -1 of row 2"}));
}

TEST(Loss, ShapesThatDifferAreRefused) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        softmax_cross_entropy_with_logits(fill({2, 3}, 1), fill({2, 4}, 1));
      },
      {"softmax_cross_entropy_with_logits: labels and logits must both be [..,classes]",
       "float32[2,3] and float32[2,4]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { softmax_cross_entropy_with_logits(fill({}, 1), fill({}, 1)); }, {"[..,classes]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        softmax_cross_entropy_with_logits(fill({2, 3}, 1, DType::float64), fill({2, 3}, 1));
      },
      {"of one dtype, got float64[2,3] and float32[2,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        sparse_softmax_cross_entropy_with_logits(fill({2}, 1), fill({2, 4}, 1));
      },
      {"labels must be int32 or int64 [..] and logits [..,classes]", "float32[2]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        sparse_softmax_cross_entropy_with_logits(fill({3}, 1, DType::int32), fill({2, 4}, 1));
      },
      {"int32[3] and float32[2,4]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        sigmoid_cross_entropy_with_logits(fill({2, 3}, 1), fill({3}, 1));
      },
      {"sigmoid_cross_entropy_with_logits: labels and logits must have one shape, got [2,3] and "
       "[3]"}));
}

}  // namespace
}  // namespace tandem::harness
