// Sizes that depend on the rows of the batch, inside functions: as numbers, in shapes, as tensors.
#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using harness::throws;
using Floats = std::vector<float>;

class Sizes : public harness::FreshDevices {};

Tensor counting(const Shape& shape) {
  return reshape(range(1, static_cast<double>(int64_t{shape.count()}) + 1), shape);
}

TEST_F(Sizes, ANumberIsThatOfTheCallAndTracedForItAlone) {
  const auto mean = function([](const Tensor& x) { return reduce_sum(x) / x.shape()[0]; });
  EXPECT_EQ(mean(counting({2, 5})).item<float>(), 27.5f);
  EXPECT_EQ(mean(counting({4, 5})).item<float>(), 52.5f);
  EXPECT_EQ(mean(counting({2, 5})).item<float>(), 27.5f);
  EXPECT_EQ(mean.trace_count(), 2);
}

TEST_F(Sizes, ALoopOverTheRowsSeesEachOfThem) {
  const auto last = function([](const Tensor& x) {
    Tensor sum = zeros({3});
    for (int64_t i = 0; i < x.shape()[0]; ++i) {
      sum = sum + gather(x, Tensor(static_cast<int32_t>(i))) * static_cast<double>(i);
    }
    return sum;
  });
  EXPECT_EQ(last(counting({3, 3})).to_vector<float>(), (Floats{18, 21, 24}));
  EXPECT_EQ(last(counting({1, 3})).to_vector<float>(), (Floats{0, 0, 0}));
}

TEST_F(Sizes, CountAndSizesAreThoseOfTheCall) {
  const auto f = function([](const Tensor& x) {
    double sum = static_cast<double>(x.shape().count());
    for (const int64_t size : x.shape().sizes()) sum += static_cast<double>(size);
    return x * 0.0 + sum + static_cast<double>(x.shape().rows());
  });
  EXPECT_EQ(f(counting({2, 3})).to_vector<float>()[0], 6 + 5 + 2);
  EXPECT_EQ(f(counting({4, 3})).to_vector<float>()[0], 12 + 7 + 4);
}

TEST_F(Sizes, ShapesMadeOfThemHoldForAnyNumberOfRows) {
  const auto f = function([](const Tensor& x) {
    const Tensor more = zeros({x.shape()[0], 2, 3}) + reshape(x, {x.shape()[0], 2, 3});
    return reshape(more, {x.shape()[0] * 2, 3});
  });
  EXPECT_EQ(f(counting({2, 6})).shape(), (Shape{4, 3}));
  EXPECT_EQ(f(counting({5, 6})).shape(), (Shape{10, 3}));
  EXPECT_EQ(f.trace_count(), 1);
}

TEST_F(Sizes, WhatMixesNumbersAndShapesIsTracedForThem) {
  const auto f = function([](const Tensor& x) {
    const int64_t rows = x.shape()[0];
    return reshape(x, {rows, -1}) + zeros({rows, 1});
  });
  EXPECT_EQ(f(counting({4, 2})).shape(), (Shape{4, 2}));
  EXPECT_EQ(f(counting({3, 2})).shape(), (Shape{3, 2}));
}

TEST_F(Sizes, AsATensorTheyHoldForAnyNumberOfRows) {
  const auto f = function([](const Tensor& x) {
    return std::pair(shape(transpose(x)), reduce_sum(x) / cast(size(x), DType::float32));
  });
  EXPECT_EQ(f(counting({2, 5})).first.to_vector<int32_t>(), (std::vector<int32_t>{5, 2}));
  EXPECT_EQ(f(counting({3, 5})).first.to_vector<int32_t>(), (std::vector<int32_t>{5, 3}));
  EXPECT_EQ(f(counting({4, 5})).second.item<float>(), 10.5f);
  EXPECT_EQ(f.trace_count(), 1);
  EXPECT_EQ(shape(counting({2, 5}), DType::int64).to_vector<int64_t>(),
            (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(shape(Tensor(1.0f)).shape(), Shape{0});
  EXPECT_TRUE(throws<InvalidArgument>([] { shape(Tensor(1.0f), DType::float32); },
                                      {"float32", "int32 and int64"}));
}

TEST_F(Sizes, ReplicasThatAgreeInANumberMayReadIt) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const distribute::MirroredStrategy strategy;
  const auto rows = function(
      [](const Tensor& x) { return reduce_sum(x) * 0.0 + static_cast<double>(x.shape()[0]); });
  const auto sum = [&](int64_t batch) {
    const auto parts = strategy.run(rows, strategy.split(counting({batch, 2})));
    return strategy.reduce(distribute::ReduceOp::sum, parts).item<float>();
  };
  EXPECT_EQ(sum(8), 8);
  EXPECT_EQ(sum(6), 6);
  EXPECT_EQ(rows.trace_count(), 2);
  EXPECT_TRUE(throws<FailedPrecondition>([&] { sum(7); }, {"replicas differ", "shape(x)"}));
  EXPECT_EQ(sum(8), 8);
}

TEST_F(Sizes, AsATensorTheyAreThoseOfTheReplica) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const distribute::MirroredStrategy strategy;
  const auto rows = function([](const Tensor& x) { return shape(x); });
  const auto parts = strategy.local_results(strategy.run(rows, strategy.split(counting({7, 2}))));
  EXPECT_EQ(parts[0].to_vector<int32_t>(), (std::vector<int32_t>{4, 2}));
  EXPECT_EQ(parts[1].to_vector<int32_t>(), (std::vector<int32_t>{3, 2}));
}

TEST_F(Sizes, ALossOfOnesOwnMayDivideByThem) {
  const auto losses = [](bool eagerly) {
    random::set_seed(3);
    keras::Sequential model({keras::layers::Dense(1, {.input_shape = {2}})});
    model.compile({.optimizer = keras::optimizers::SGD(0.05),
                   .loss = keras::losses::Loss([](const Tensor& y, const Tensor& z) {
                     const auto rows = static_cast<double>(y.shape()[0]);
                     return reduce_sum(square(y - z), {.axes = {{1}}}) * (4.0 / rows);
                   }),
                   .run_eagerly = eagerly});
    const Tensor x = counting({10, 2}) * 0.1;
    return model.fit(x, x * 2.0, {.batch_size = 4, .epochs = 3, .verbose = keras::Verbose::silent})
        .history.at("loss");
  };
  const auto compiled = losses(false), eager = losses(true);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(compiled[i], eager[i], 1e-6 * eager[i]);
}

TEST_F(Sizes, ASignatureMayLeaveSeveralOfThemOpen) {
  const auto twice = function([](const Tensor& x) { return x * 2.0; },
                              {.input_signature = {{DType::float32, {-1, -1}}}});
  EXPECT_EQ(twice(counting({2, 3})).shape(), (Shape{2, 3}));
  EXPECT_EQ(twice(counting({4, 3})).shape(), (Shape{4, 3}));
  EXPECT_EQ(twice.trace_count(), 1);
  EXPECT_EQ(twice(counting({4, 5})).shape(), (Shape{4, 5}));
  EXPECT_EQ(twice.trace_count(), 2);
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { twice(counting({4})); }, {"float32[4]", "float32[None,None]"}));
}

TEST_F(Sizes, MemoryIsPlannedForTheNumberThatWasRead) {
  const auto f = function([](const Tensor& x) { return x * static_cast<double>(x.shape()[0]); });
  f(counting({4, 2}));
  EXPECT_EQ(f.memory_plan(4).devices.size(), 1u);
  EXPECT_TRUE(throws<InvalidArgument>([&] { f.memory_plan(5); }, {"5 rows", "for 4 alone"}));
}

TEST_F(Sizes, RowsOfATracedTensorAreRefusedByName) {
  const auto f = function([](const Tensor& x) { return x.rows(0, 1); });
  EXPECT_TRUE(throws<FailedPrecondition>(
      [&] {
        f(counting({4, 2}));
      },
      {"rows", "float32[None,2]", "use slice"}));
}

}  // namespace
}  // namespace tandem
