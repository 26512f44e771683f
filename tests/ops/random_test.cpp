#include <gtest/gtest.h>

#include <cmath>

#include "device/device.h"
#include "runtime/random_calls.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

class Random : public testing::Test {
 protected:
  void SetUp() override { devices::reset_devices(); }
  void TearDown() override { devices::reset_devices(); }
};

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments_of(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (double v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  for (double v : values) squares += (v - mean) * (v - mean);
  return {mean, std::sqrt(squares / static_cast<double>(values.size()))};
}

TEST_F(Random, NormalHasItsMoments) {
  const auto values =
      random_normal({100'000}, 3, 2, {.dtype = DType::float64, .seed = 5}).to_vector<double>();
  const Moments moments = moments_of(values);
  EXPECT_NEAR(moments.mean, 3, 0.03);
  EXPECT_NEAR(moments.deviation, 2, 0.03);
}

TEST_F(Random, UniformStaysWithinItsBounds) {
  const auto values =
      random_uniform({100'000}, -1, 3, {.dtype = DType::float64}).to_vector<double>();
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, -1);
  EXPECT_LT(*most, 3);
  EXPECT_NEAR(moments_of(values).mean, 1, 0.03);
}

TEST_F(Random, TheSameCallGivesTheSameNumbersAndTheNextOnesDiffer) {
  runtime::reset_random_calls();
  const auto first = random_normal({64}, 0, 1, {.seed = 1}).to_vector<float>();
  const auto next = random_normal({64}, 0, 1, {.seed = 1}).to_vector<float>();
  runtime::reset_random_calls();
  EXPECT_EQ(random_normal({64}, 0, 1, {.seed = 1}).to_vector<float>(), first);
  EXPECT_NE(next, first);
  runtime::reset_random_calls();
  EXPECT_NE(random_normal({64}, 0, 1, {.seed = 2}).to_vector<float>(), first);
}

/// What a program draws for five rows, under `replicas` replicas of `threads` threads.
std::vector<float> drawn(int replicas, int threads) {
  devices::reset_devices();
  config::set_logical_cpus(
      std::vector<config::LogicalCpu>(static_cast<size_t>(replicas), {threads}));
  runtime::reset_random_calls();
  const distribute::MirroredStrategy strategy;
  const auto draw = function([](const Tensor& x) {
    return random_normal(x.shape()) + random_uniform({x.shape()[0], 3});
  });
  const auto result =
      strategy.run(draw, strategy.split(Tensor::from(std::vector<float>(15), {5, 3})));
  std::vector<float> all;
  for (const Tensor& part : strategy.local_results(result)) {
    const auto values = part.to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST_F(Random, NumbersDependOnTheGlobalRowAlone) {
  const auto wanted = drawn(1, 1);
  EXPECT_EQ(wanted.size(), 15u);
  EXPECT_EQ(drawn(1, 3), wanted);
  EXPECT_EQ(drawn(2, 1), wanted);
  EXPECT_EQ(drawn(3, 1), wanted);
  EXPECT_EQ(drawn(7, 1), wanted);
}

TEST_F(Random, OnlyFloatsAreDrawn) {
  EXPECT_THROW(random_normal({2}, 0, 1, {.dtype = DType::int32}), InvalidArgument);
}

}  // namespace
}  // namespace tandem
