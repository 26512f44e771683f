#include <gtest/gtest.h>

#include "device/logical_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using harness::throws;
using Doubles = std::vector<double>;
using RowSparseTest = harness::FreshDevices;

Tensor table() { return Tensor::from<double>({1, 2, 3, 4, 5, 6}, {3, 2}); }

/// The gradient of the sum of squares of some rows.
Tensor gradient_of(const Tensor& x, const Tensor& indices) {
  GradientTape tape;
  tape.watch(x);
  const Tensor rows = gather(x, indices);
  return tape.gradient(rows * rows, x);
}

TEST_F(RowSparseTest, TheGradientOfAGatherIsTheRowsGathered) {
  const Tensor gradient = gradient_of(table(), Tensor::from<int64_t>({2, 0, 2}, {3}));
  ASSERT_TRUE(gradient.is_row_sparse());
  EXPECT_EQ(gradient.shape(), (Shape{3, 2}));
  EXPECT_EQ(gradient.row_slices().indices.to_vector<int64_t>(), (std::vector<int64_t>{2, 0, 2}));
  EXPECT_EQ(gradient.row_slices().values.to_vector<double>(), (Doubles{10, 12, 2, 4, 10, 12}));
  EXPECT_EQ(gradient.to_vector<double>(), (Doubles{2, 4, 0, 0, 20, 24}));
  EXPECT_EQ(gradient.rows(2, 3).to_vector<double>(), (Doubles{20, 24}));
  EXPECT_EQ((gradient + 1.0).to_vector<double>(), (Doubles{3, 5, 1, 1, 21, 25}));
  EXPECT_EQ(gradient.device(), "/device:CPU:0");
}

TEST_F(RowSparseTest, ItCostsInProportionToTheRowsGathered) {
  const Tensor large = fill({200'000, 64}, 1.0);
  const Tensor indices = Tensor::from<int32_t>({7, 199'999}, {2});
  auto& allocator = devices::host_device()->allocator();
  allocator.reset_peak();
  const size_t before = allocator.info().current;
  const Tensor gradient = gradient_of(large, indices);
  EXPECT_LT(allocator.info().peak - before, size_t{64} << 10);
  EXPECT_EQ(gradient.row_slices().values.shape(), (Shape{2, 64}));
}

TEST_F(RowSparseTest, SeveralGathersAddUpAndStaySparse) {
  const Tensor x = table();
  GradientTape tape;
  tape.watch(x);
  const Tensor y =
      gather(x, Tensor::from<int32_t>({0}, {1})) + gather(x, Tensor::from<int64_t>({0}, {1}));
  const Tensor gradient = tape.gradient(y, x);
  EXPECT_TRUE(gradient.is_row_sparse());
  EXPECT_EQ(gradient.to_vector<double>(), (Doubles{2, 2, 0, 0, 0, 0}));
}

TEST_F(RowSparseTest, WhatComesBeforeTheGatherGetsAllRows) {
  const Tensor x = table();
  GradientTape tape;
  tape.watch(x);
  const Tensor y = gather(x * x, Tensor::from<int64_t>({1}, {1})) + reduce_sum(x);
  EXPECT_EQ(tape.gradient(y, x).to_vector<double>(), (Doubles{2, 2, 8, 10, 2, 2}));
}

TEST_F(RowSparseTest, SecondDerivativesPassThrough) {
  const Tensor x = table();
  GradientTape outer;
  outer.watch(x);
  const Tensor first = gradient_of(x, Tensor::from<int64_t>({1}, {1}));
  EXPECT_EQ(outer.gradient(first * first, x).to_vector<double>(), (Doubles{0, 0, 24, 32, 0, 0}));
}

TEST_F(RowSparseTest, FunctionsUseAndReturnIt) {
  const Variable embedding(table(), {.name = "embedding"});
  const auto step = function([&](const Tensor& ids) {
    GradientTape tape;
    const Tensor rows = gather(embedding, ids);
    const Tensor gradient = tape.gradient(rows * rows, embedding);
    EXPECT_TRUE(gradient.is_row_sparse());
    EXPECT_TRUE(gradient.is_symbolic());
    embedding.assign_sub(gradient * 0.5);
    return gradient;
  });
  EXPECT_EQ(step(Tensor::from<int64_t>({0, 2}, {2})).to_vector<double>(),
            (Doubles{2, 4, 0, 0, 10, 12}));
  EXPECT_EQ(embedding.value().to_vector<double>(), (Doubles{0, 0, 3, 4, 0, 0}));
  EXPECT_EQ(step(Tensor::from<int64_t>({1, 1, 1}, {3})).to_vector<double>(),
            (Doubles{0, 0, 18, 24, 0, 0}));
  EXPECT_EQ(step.trace_count(), 1);
}

TEST_F(RowSparseTest, ATensorWithAllRowsHasNoSlices) {
  EXPECT_FALSE(table().is_row_sparse());
  EXPECT_TRUE(throws<FailedPrecondition>([] { table().row_slices(); }, {"float64[3,2]"}));
}

}  // namespace
}  // namespace tandem
