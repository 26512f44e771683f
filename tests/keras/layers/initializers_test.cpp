#include "tandem/keras/initializers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/keras/layer.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using harness::throws;

struct Moments {
  double mean, deviation, largest;
};

Moments moments_of(const Initializer& initializer, const Shape& shape) {
  const auto values = initializer(shape, DType::float64).to_vector<double>();
  double sum = 0, squares = 0, largest = 0;
  for (double value : values) {
    sum += value;
    squares += value * value;
    largest = std::max(largest, std::abs(value));
  }
  const auto count = static_cast<double>(values.size());
  return {sum / count, std::sqrt(squares / count), largest};
}

class InitializerTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    random::set_seed(5);
  }
};

/// A window of 9, 20 inputs and 60 outputs: fans 180 and 540.
TEST_F(InitializerTest, VarianceFollowsTheFans) {
  struct Row {
    const char* name;
    double deviation;
    bool uniform;
  };
  const Shape shape{3, 3, 20, 60};
  for (const Row& row : {Row{"glorot_uniform", std::sqrt(1 / 360.0), true},
                         Row{"glorot_normal", std::sqrt(1 / 360.0), false},
                         Row{"he_uniform", std::sqrt(2 / 180.0), true},
                         Row{"he_normal", std::sqrt(2 / 180.0), false},
                         Row{"lecun_uniform", std::sqrt(1 / 180.0), true},
                         Row{"lecun_normal", std::sqrt(1 / 180.0), false}}) {
    const auto [mean, deviation, largest] = moments_of(row.name, shape);
    EXPECT_NEAR(mean, 0, 0.05 * row.deviation) << row.name;
    EXPECT_NEAR(deviation, row.deviation, 0.03 * row.deviation) << row.name;
    // Uniform numbers end at sqrt(3) deviations, truncated normal ones at 2 of the untruncated.
    const double limit = row.uniform ? std::sqrt(3.0) : 2 / 0.8796256610342398;
    EXPECT_LE(largest, limit * row.deviation) << row.name;
    EXPECT_GT(largest, 0.95 * limit * row.deviation) << row.name;
  }
}

TEST_F(InitializerTest, FansOfMatricesAndVectors) {
  const auto half = initializers::variance_scaling(1, "fan_out", "untruncated_normal");
  EXPECT_NEAR(moments_of(half, {300, 100}).deviation, 0.1, 0.003);
  const auto vector = initializers::variance_scaling(1, "fan_in", "uniform");
  EXPECT_NEAR(moments_of(vector, {10'000}).deviation, 0.01, 0.0005);
}

TEST_F(InitializerTest, PlainNumbers) {
  EXPECT_EQ(Initializer("zeros")({2}).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(Initializer("ones")({2}).to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(initializers::constant(0.5)({2}, DType::float64).to_vector<double>(),
            (std::vector<double>{0.5, 0.5}));
  EXPECT_NEAR(moments_of("random_normal", {20'000}).deviation, 0.05, 0.001);
  EXPECT_LE(moments_of("truncated_normal", {20'000}).largest, 0.1);
  EXPECT_LE(moments_of("uniform", {20'000}).largest, 0.05);
}

TEST_F(InitializerTest, MistakesAreNamed) {
  EXPECT_TRUE(throws<InvalidArgument>([] { Initializer("glorot"); },
                                      {"'glorot'", "zeros", "glorot_uniform", "truncated_normal"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { initializers::variance_scaling(1, "fan", "uniform"); },
                                      {"mode is 'fan'", "fan_avg"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { initializers::variance_scaling(1, "fan_in", "even"); },
                                      {"distribution is 'even'", "truncated_normal"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { initializers::variance_scaling(0, "fan_in", "uniform"); }, {"scale is 0"}));
}

TEST_F(InitializerTest, RegularizersAreSumsOverTheWeight) {
  const Tensor weight = Tensor::of({1.0, -2.0, 3.0});
  EXPECT_DOUBLE_EQ(regularizers::l1(0.5)(weight).item<double>(), 3);
  EXPECT_DOUBLE_EQ(regularizers::l2(0.5)(weight).item<double>(), 7);
  EXPECT_DOUBLE_EQ(regularizers::l1_l2(1, 0.5)(weight).item<double>(), 13);
  EXPECT_DOUBLE_EQ(Regularizer("l2")(weight).item<double>(), 0.14);
  EXPECT_DOUBLE_EQ(Regularizer("l1_l2")(weight).item<double>(), 0.2);
  EXPECT_TRUE(throws<InvalidArgument>([] { Regularizer("l3"); }, {"'l3'", "l1, l2, l1_l2"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { regularizers::l2(-1); }, {"l2 is -1"}));
}

}  // namespace
}  // namespace tandem::keras
