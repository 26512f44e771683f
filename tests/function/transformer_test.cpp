/// One small GPT, trained a few steps in every way there is, with the same losses each time.
#include "harness/transformer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/without.h"

namespace tandem::harness {
namespace {

constexpr TransformerSizes kSizes{
    .layers = 2, .width = 12, .heads = 2, .tokens = 7, .vocabulary = 11};
constexpr int kSteps = 12;
constexpr double kRate = 0.02;

class TransformerTest : public FreshDevices {
 protected:
  using Model = Transformer<double>;

  /// Texts in each step: an odd number, so that replicas have unequal parts, and one.
  static int64_t batch_of(int step) { return step % 3 == 2 ? 1 : 5; }

  template <class Step>
  static std::vector<double> losses(const Step& step) {
    std::vector<double> values;
    for (int i = 0; i < kSteps; ++i) {
      const auto [read, next] = texts(batch_of(i), kSizes);
      values.push_back(step(read, next));
    }
    return values;
  }

  static std::vector<double> eager_losses() {
    const Model model(kSizes, kRate);
    return losses([&](const Tensor& read, const Tensor& next) {
      return model.train_step({read, next}).item<double>();
    });
  }

  static std::vector<double> compiled_losses() {
    const Model model(kSizes, kRate);
    const auto step = model.compiled_step();
    return losses([&](const Tensor& read, const Tensor& next) {
      return step(read, next).template item<double>();
    });
  }

  static void expect_same(const std::vector<double>& got, const std::vector<double>& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-9) << "step " << i;
  }
};

TEST_F(TransformerTest, LearnsItsTexts) {
  const auto values = eager_losses();
  EXPECT_NEAR(values[0], std::log(11.0), 0.7);
  EXPECT_LT(values[kSteps - 2], 0.8 * values[0]);
}

TEST_F(TransformerTest, CompiledStepsAreEagerOnes) {
  const auto expected = eager_losses();
  for (const int threads : {1, 3}) {
    restart();
    config::set_logical_cpus({{.threads = threads}});
    expect_same(compiled_losses(), expected);
    {
      const auto off = without_fusion();
      expect_same(compiled_losses(), expected);
    }
    const auto off = without_memory_planning();
    expect_same(compiled_losses(), expected);
  }
}

TEST_F(TransformerTest, ALateDeviceTrainsTheSame) {
  const auto expected = eager_losses();
  restart();
  devices::test::add_test_gpu({.delay = std::chrono::microseconds(5)});
  expect_same(compiled_losses(), expected);
}

TEST_F(TransformerTest, TwoReplicasAreOne) {
  const auto expected = eager_losses();
  restart();
  config::set_logical_cpus({{.threads = 1}, {.threads = 2}});
  const distribute::MirroredStrategy strategy;
  const auto scope = strategy.scope();
  const Model model(kSizes, kRate);
  const auto step = model.compiled_step();
  expect_same(losses([&](const Tensor& read, const Tensor& next) {
                const auto loss = strategy.run(step, strategy.split(read), strategy.split(next));
                return strategy.reduce(distribute::ReduceOp::sum, loss).item<double>();
              }),
              expected);
}

}  // namespace
}  // namespace tandem::harness
