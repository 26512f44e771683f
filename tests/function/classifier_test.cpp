/// One classifier, trained 200 steps in every way there is, with the same losses and weights each
/// time.
#include "harness/classifier.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "device/test/test_device.h"

namespace tandem::harness {
namespace {

constexpr int kSteps = 200;
constexpr int64_t kPool = 512;
constexpr double kTolerance = 1e-9;

struct Outcome {
  std::vector<double> losses;
  std::vector<std::vector<double>> weights;
};

using Step = std::function<double(const Tensor& x, const Tensor& y)>;

/// Batches of 128, 96, 2 and 1 rows in turn, from moving places of a pool.
Outcome train(const Classifier<double>& model, const Step& step) {
  const Tensor x = features<double>(kPool);
  const Tensor y = labels<double>(kPool);
  constexpr int64_t kSizes[] = {128, 96, 2, 1};
  Outcome outcome;
  for (int s = 0; s < kSteps; ++s) {
    const int64_t begin = s * 37 % (kPool - 128);
    const int64_t end = begin + kSizes[s % 4];
    outcome.losses.push_back(step(x.rows(begin, end), y.rows(begin, end)));
  }
  for (const Variable& variable : model.variables) {
    outcome.weights.push_back(variable.value().to_vector<double>());
  }
  return outcome;
}

void expect_same(const Outcome& a, const Outcome& b) {
  for (size_t i = 0; i < a.losses.size(); ++i) {
    ASSERT_NEAR(a.losses[i], b.losses[i], kTolerance) << "loss of step " << i;
  }
  for (size_t v = 0; v < a.weights.size(); ++v) {
    ASSERT_EQ(a.weights[v].size(), b.weights[v].size());
    for (size_t i = 0; i < a.weights[v].size(); ++i) {
      ASSERT_NEAR(a.weights[v][i], b.weights[v][i], kTolerance)
          << "variable " << v << " element " << i;
    }
  }
}

Outcome train_eager() {
  const Classifier<double> model;
  return train(model, [&](const Tensor& x, const Tensor& y) {
    return model.train_step(x, y).item<double>();
  });
}

Outcome train_compiled() {
  const Classifier<double> model;
  const auto step = model.compiled_step();
  const Outcome outcome =
      train(model, [&](const Tensor& x, const Tensor& y) { return step(x, y).item<double>(); });
  EXPECT_EQ(step.trace_count(), 1);
  return outcome;
}

Outcome train_mirrored(const std::vector<std::string>& devices) {
  const distribute::MirroredStrategy strategy(devices);
  const auto scope = strategy.scope();
  const Classifier<double> model;
  const auto step = model.compiled_step();
  const Outcome outcome = train(model, [&](const Tensor& x, const Tensor& y) {
    const auto loss = strategy.run(step, strategy.split(x), strategy.split(y));
    return strategy.reduce(distribute::ReduceOp::sum, loss).item<double>();
  });
  EXPECT_EQ(step.trace_count(), 1);
  return outcome;
}

/// Losses and weights that TensorFlow itself computed; see
/// tests/fixtures/make_tensorflow_classifier.py.
void expect_tensorflow(const Outcome& outcome) {
  std::ifstream file(TANDEM_FIXTURES_DIR "/tensorflow_classifier.txt");
  ASSERT_TRUE(file) << "tests/fixtures/tensorflow_classifier.txt is missing";
  const std::map<std::string, size_t> names{
      {"kernel0", 0}, {"bias0", 1}, {"kernel1", 2}, {"bias1", 3}};
  int losses = 0;
  int weights = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    std::string name;
    size_t index = 0;
    double value = 0;
    words >> kind;
    if (kind == "loss" && words >> index >> value) {
      EXPECT_NEAR(outcome.losses.at(index), value, kTolerance) << line;
      ++losses;
    } else if (kind == "weight" && words >> name >> index >> value) {
      EXPECT_NEAR(outcome.weights.at(names.at(name)).at(index), value, kTolerance) << line;
      ++weights;
    } else if (kind == "sum" && words >> name >> value) {
      double sum = 0;
      for (double weight : outcome.weights.at(names.at(name))) sum += weight;
      EXPECT_NEAR(sum, value, 1e-7) << line;
      ++weights;
    }
  }
  EXPECT_EQ(losses, kSteps);
  EXPECT_GT(weights, 30);
}

class ClassifierTest : public testing::Test {
 protected:
  void SetUp() override { devices::reset_devices(); }
  void TearDown() override { devices::reset_devices(); }

  /// The run that all others are compared with: eager, on one thread.
  static const Outcome& reference() {
    static const Outcome outcome = [] {
      config::set_logical_cpus({{.threads = 1}});
      Outcome eager = train_eager();
      devices::reset_devices();
      return eager;
    }();
    return outcome;
  }
};

TEST_F(ClassifierTest, EagerEqualsTensorFlow) { expect_tensorflow(reference()); }

TEST_F(ClassifierTest, EagerOnTwoThreadsIsTheSame) {
  const Outcome& wanted = reference();
  config::set_logical_cpus({{.threads = 2}});
  expect_same(wanted, train_eager());
}

TEST_F(ClassifierTest, TracedOnTeamsOfOneToThreeThreadsIsTheSame) {
  const Outcome& wanted = reference();
  for (int threads : {1, 2, 3}) {
    devices::reset_devices();
    config::set_logical_cpus({{.threads = threads}});
    expect_same(wanted, train_compiled());
  }
}

TEST_F(ClassifierTest, TwoReplicasAreTheSame) {
  const Outcome& wanted = reference();
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  expect_same(wanted, train_mirrored({}));
}

TEST_F(ClassifierTest, ThreeReplicasWithPartialAndEmptyShardsAreTheSame) {
  const Outcome& wanted = reference();
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}, {.threads = 1}});
  expect_same(wanted, train_mirrored({}));
}

TEST_F(ClassifierTest, FourReplicasOnTwoCoresAreTheSame) {
  const Outcome& wanted = reference();
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}, {.threads = 1}, {.threads = 1}});
  expect_same(wanted, train_mirrored({}));
}

TEST_F(ClassifierTest, ReplicasWithDifferentNumbersOfThreadsAreTheSame) {
  const Outcome& wanted = reference();
  config::set_logical_cpus({{.threads = 2}, {.threads = 1}});
  expect_same(wanted, train_mirrored({}));
}

TEST_F(ClassifierTest, ALateQueueWithMemoryOfItsOwnIsTheSame) {
  const Outcome& wanted = reference();
  devices::test::add_test_gpu({.delay = std::chrono::microseconds(20)});
  expect_same(wanted, train_compiled());
}

TEST_F(ClassifierTest, EagerOnALateQueueIsTheSame) {
  const Outcome& wanted = reference();
  devices::test::add_test_gpu({.delay = std::chrono::microseconds(1)});
  expect_same(wanted, train_eager());
}

TEST_F(ClassifierTest, AStrategyOfOneTestDeviceIsTheSame) {
  const Outcome& wanted = reference();
  devices::test::add_test_gpu({.delay = std::chrono::microseconds(20)});
  expect_same(wanted, train_mirrored({"/GPU:0"}));
}

}  // namespace
}  // namespace tandem::harness
