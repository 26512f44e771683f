#include <gtest/gtest.h>

#include <cmath>

#include "harness/op_check.h"

namespace tandem::harness {
namespace {

/// Against the definition, with labels held constant (they have no gradient).
OpRow row_of(const std::string& name, const Tensor& logits, const Tensor& labels) {
  const auto z = logits.to_vector<double>();
  const auto y = labels.to_vector<double>();
  const auto classes = static_cast<size_t>(logits.shape()[1]);
  std::vector<double> expected;
  for (size_t r = 0; r * classes < z.size(); ++r) {
    const double* row = &z[r * classes];
    const double largest = *std::max_element(row, row + classes);
    double sum = 0;
    for (size_t j = 0; j < classes; ++j) sum += std::exp(row[j] - largest);
    double loss = 0;
    for (size_t j = 0; j < classes; ++j) {
      loss += y[r * classes + j] * (std::log(sum) + largest - row[j]);
    }
    expected.push_back(loss);
  }
  const auto fixed = std::make_shared<std::vector<double>>(y);
  return {.name = name,
          .inputs = {logits},
          .f =
              [fixed, shape = labels.shape()](const Tensors& t) {
                const Tensor labels = cast(Tensor::from(*fixed, shape), t[0].dtype());
                return softmax_cross_entropy_with_logits(labels, t[0]);
              },
          .expected = expected,
          .shape = {logits.shape()[0]}};
}

TEST(Loss, CrossEntropyOfSmallAndLargeRows) {
  for (int64_t classes : {1, 2, 10, 17, 33}) {
    Tensor labels = fill({4, classes}, 1.0 / static_cast<double>(classes), DType::float64);
    check_op(row_of("classes " + std::to_string(classes), spread({4, classes}, 5), labels));
  }
}

TEST(Loss, LargeLogitsDoNotOverflow) {
  const Tensor logits = doubles({1000, -1000, 0, -800, -900, -1000}, {2, 3});
  check_op(row_of("large", logits, doubles({1, 0, 0, 0, 0, 1}, {2, 3})));
}

TEST(Loss, NoRowsHaveNoLoss) {
  const auto row = row_of("empty", doubles({}, {0, 3}), doubles({}, {0, 3}));
  EXPECT_TRUE(row.expected.empty());
  check_op(row);
}

TEST(Loss, ShapesThatDifferAndGradientsOfLabelsAreRefused) {
  EXPECT_THROW(softmax_cross_entropy_with_logits(fill({2, 3}, 1), fill({2, 4}, 1)),
               InvalidArgument);
  EXPECT_THROW(softmax_cross_entropy_with_logits(fill({3}, 1), fill({3}, 1)), InvalidArgument);
  const Tensor labels = fill({2, 3}, 0.5);
  GradientTape tape;
  tape.watch(labels);
  const Tensor loss = reduce_sum(softmax_cross_entropy_with_logits(labels, fill({2, 3}, 1)));
  EXPECT_THROW(tape.gradient(loss, Tensors{labels}), Unimplemented);
}

}  // namespace
}  // namespace tandem::harness
