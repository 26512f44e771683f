#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "device/logical_device.h"
#include "harness/throws.h"
#include "runtime/random_calls.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using harness::throws;

class Dropout : public testing::Test {
 protected:
  void SetUp() override { devices::reset_devices(); }
  void TearDown() override {
    devices::reset_devices();
    runtime::forget_global_seed();
  }
};

TEST_F(Dropout, DropsAtItsRateAndScalesTheRest) {
  for (double rate : {0.1, 0.5, 0.9}) {
    const auto values = dropout(fill({100'000}, 3), rate, {.seed = 1}).to_vector<float>();
    int dropped = 0;
    for (float v : values) {
      if (v == 0) {
        ++dropped;
      } else {
        EXPECT_FLOAT_EQ(v, static_cast<float>(3 / (1 - rate)));
      }
    }
    EXPECT_NEAR(dropped, rate * 1e5, 4 * std::sqrt(1e5 * rate * (1 - rate))) << rate;
  }
}

TEST_F(Dropout, ARateOfZeroKeepsEverything) {
  const Tensor x = Tensor::of({1.0, -2.0, 0.5});
  EXPECT_EQ(dropout(x, 0).to_vector<double>(), x.to_vector<double>());
}

TEST_F(Dropout, AStatelessSeedKeepsWhatTensorFlowKeeps) {
  const auto kept = [](const Shape& shape, double rate, int64_t first, int64_t second) {
    const Tensor seed = Tensor::from<int64_t>({first, second}, {2});
    const Tensor x = fill(shape, 1);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = dropout(x, rate, {.stateless_seed = seed});
    EXPECT_EQ(tape.gradient(y, x).to_vector<float>(), y.to_vector<float>());
    std::vector<int> result;
    for (const float value : y.to_vector<float>()) {
      EXPECT_TRUE(value == 0 || value == static_cast<float>(1 / (1 - rate))) << value;
      result.push_back(value > 0 ? 1 : 0);
    }
    return result;
  };
  const std::vector<int> first = {1, 0, 1, 1, 1, 0, 1, 0, 1, 1, 1, 0,
                                  0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1};
  EXPECT_EQ(kept({24}, 0.4, 7, 3), first);
  EXPECT_EQ(kept({24}, 0.4, 7, 3), first);  // Each time.
  EXPECT_EQ(kept({3, 5}, 0.25, 123456789, 41),
            (std::vector<int>{1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 1, 1}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { dropout(fill({3}, 1), 0.5, {.stateless_seed = Tensor::from<int64_t>({1}, {1})}); },
      {"dropout: stateless_seed is int64[1], not int64[2]"}));
}

TEST_F(Dropout, WhatIsDroppedIsZeroWhateverItWas) {
  const auto values = dropout(fill({1000}, std::nan("")), 0.5, {.seed = 2}).to_vector<float>();
  const auto zeros = std::ranges::count(values, 0.F);
  EXPECT_GT(zeros, 400);
  EXPECT_EQ(std::ranges::count_if(values, [](float v) { return std::isnan(v); }), 1000 - zeros);
}

/// The result, its gradient and the gradient of that.
template <class T>
Tensors with_gradients(const Tensor& x, double rate) {
  GradientTape second;
  second.watch(x);
  GradientTape first;
  first.watch(x);
  const Tensor y = dropout(x * x, rate);
  const Tensor gradient = first.gradient(reduce_sum(y), x);
  return {y, gradient, second.gradient(reduce_sum(gradient * x), x)};
}

template <class T>
void expect_consistent(const Tensors& results, const std::vector<T>& x, double rate) {
  const auto y = results[0].to_vector<T>();
  const auto gradient = results[1].to_vector<T>();
  const auto second = results[2].to_vector<T>();
  const T scale = static_cast<T>(1 / (1 - rate));
  int kept = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const T passes = y[i] == 0 ? T(0) : scale;
    kept += y[i] != 0;
    EXPECT_NEAR(y[i], x[i] * x[i] * passes, 1e-5);
    EXPECT_NEAR(gradient[i], 2 * x[i] * passes, 1e-5);     // The gradient of s x^2.
    EXPECT_NEAR(second[i], 4 * x[i] * passes, 1e-5) << i;  // The gradient of 2 s x^2.
  }
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, static_cast<int>(x.size()));
}

TEST_F(Dropout, GradientsPassWhereElementsDid) {
  std::vector<float> floats;
  std::vector<double> doubles;
  for (int i = 0; i < 60; ++i) {
    floats.push_back(0.1F * static_cast<float>(i + 1));
    doubles.push_back(floats.back());
  }
  const Tensor x32 = Tensor::from(floats, {20, 3});
  const Tensor x64 = Tensor::from(doubles, {20, 3});
  expect_consistent(with_gradients<float>(x32, 0.25), floats, 0.25);
  expect_consistent(with_gradients<double>(x64, 0.5), doubles, 0.5);

  const auto traced = function([](const Tensor& x) { return with_gradients<float>(x, 0.25); });
  for (int call = 0; call < 3; ++call) expect_consistent<float>(traced(x32), floats, 0.25);
}

/// Gradients of twelve rows through two dropouts, on replicas.
std::vector<float> replica_gradients(int replicas, int threads) {
  devices::reset_devices();
  config::set_logical_cpus(
      std::vector<config::LogicalCpu>(static_cast<size_t>(replicas), {threads}));
  random::set_seed(3);
  const distribute::MirroredStrategy strategy;
  const auto f = function([](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(reduce_sum(dropout(dropout(x, 0.3) * x, 0.4)), x);
  });
  std::vector<float> values(12 * 5);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1 + static_cast<float>(i);
  std::vector<float> all;
  const auto result = strategy.run(f, strategy.split(Tensor::from(values, {12, 5})));
  for (const Tensor& part : strategy.local_results(result)) {
    const auto own = part.to_vector<float>();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

TEST_F(Dropout, ReplicasDropWhatOneDeviceDrops) {
  const auto wanted = replica_gradients(1, 1);
  EXPECT_EQ(wanted.size(), 60u);
  EXPECT_GT(std::ranges::count(wanted, 0.F), 5);
  EXPECT_EQ(replica_gradients(1, 3), wanted);
  EXPECT_EQ(replica_gradients(2, 1), wanted);
  EXPECT_EQ(replica_gradients(5, 2), wanted);
}

TEST_F(Dropout, EveryCallDropsOthers) {
  const Tensor x = fill({100}, 1);
  EXPECT_NE(dropout(x, 0.5).to_vector<float>(), dropout(x, 0.5).to_vector<float>());
  const auto f = function([](const Tensor& t) {
    return Tensors{dropout(t, 0.5), dropout(t, 0.5)};
  });
  const Tensors both = f(x);
  EXPECT_NE(both[0].to_vector<float>(), both[1].to_vector<float>());
  EXPECT_NE(f(x)[0].to_vector<float>(), both[0].to_vector<float>());
}

TEST_F(Dropout, EmptyTensorsAndScalarsWork) {
  EXPECT_EQ(dropout(fill({0, 3}, 1), 0.5).shape(), (Shape{0, 3}));
  const float value = dropout(Tensor(2.F), 0.5).item<float>();
  EXPECT_TRUE(value == 0 || value == 4) << value;
}

TEST_F(Dropout, WrongArgumentsAreNamed) {
  for (double rate : {-0.1, 1.0, std::nan("")}) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { dropout(fill({2}, 1), rate); },
                                        {"dropout: the rate is", "not within [0, 1)"}));
  }
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        dropout(Tensor::of({1, 2}), 0.5);
      },
      {"dropout: int32 is not supported"}));
}

}  // namespace
}  // namespace tandem
