// Steps that are captured and replayed give the bits of those whose commands are issued one by one:
// on doubles of CUDA devices as graphs, on PoCL as command buffers.
#include <gtest/gtest.h>

#include <regex>

#include "harness/classifier.h"
#include "harness/cuda.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "harness/throws.h"

namespace tandem::graph {
namespace {

using config::CapturedSteps;
using harness::throws;
using Floats = std::vector<float>;
namespace cuda_double = harness::cuda_double;

struct Backend {
  const char* name;
  bool is_cuda;
};

class CapturedStepsTest : public harness::FreshDevices,
                          public testing::WithParamInterface<Backend> {
 protected:
  void SetUp() override {
    if (GetParam().is_cuda) TANDEM_SKIP_WITHOUT_NVRTC();
    complaints_ = GetParam().is_cuda ? cuda_double::count("complaints") : 0;
  }
  void TearDown() override {
    if (IsSkipped()) return;
    FreshDevices::TearDown();
    if (!GetParam().is_cuda) return;
    EXPECT_EQ(cuda_double::count("complaints"), complaints_);
    EXPECT_EQ(cuda_double::count("graphs"), 0);
  }

  /// Fresh devices, on which steps are captured or not.
  static void begin(bool captures) {
    FreshDevices::restart();
    GetParam().is_cuda ? harness::use_cuda() : harness::use_opencl();
    // CUDA's are captured unless somebody says otherwise.
    if (!captures) config::set_captured_steps(CapturedSteps::off);
    if (captures && !GetParam().is_cuda) config::set_captured_steps(CapturedSteps::on);
    random::set_seed(7);
  }

  /// What `train` gives, which is the same with and without captures.
  template <class Train>
  static void expect_same(const Train& train) {
    begin(false);
    const Floats plain = train();
    begin(true);
    const Floats captured = train();
    ASSERT_EQ(plain.size(), captured.size());
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(captured[i], plain[i]) << i;
  }

 private:
  long long complaints_ = 0;
};

struct Captures {
  int captured = 0;
  int replayed = 0;
};

/// As a function's explain() tells of one device.
Captures captures_of(const std::string& explained, const std::string& device = "/device:GPU:0") {
  const std::regex line("commands for " + device +
                        ": (\\d+) times captured, (\\d+) times replayed");
  std::smatch found;
  if (!std::regex_search(explained, found, line)) return {};
  return {std::stoi(found[1]), std::stoi(found[2])};
}

void add_weights(const Variables& variables, Floats& values) {
  for (const Variable& variable : variables) {
    const Floats weights = variable.value().to_vector<float>();
    values.insert(values.end(), weights.begin(), weights.end());
  }
}

constexpr int64_t kColumns = 12;

Tensor batch(int64_t rows, int step) {
  return harness::features<float>(rows, kColumns) * (1.0f + 0.01f * static_cast<float>(step));
}

TEST_P(CapturedStepsTest, AnMlpTrainsToTheSameBits) {
  Captures captures;
  expect_same([&] {
    const auto scope = device("/GPU:0");
    const harness::Classifier<float> model({kColumns, 9, 10});
    const auto step = model.compiled_step();
    Floats values;
    for (int i = 0; i < 8; ++i) {
      values.push_back(step(batch(6, i), harness::labels<float>(6)).item<float>());
    }
    add_weights(model.variables, values);
    captures = captures_of(step.explain());
    return values;
  });
  EXPECT_GT(captures.captured, 0);
  EXPECT_GE(captures.replayed, 8 - 1 - captures.captured);
}

TEST_P(CapturedStepsTest, AConvnetTrainsToTheSameBits) {
  Captures captures;
  expect_same([&] {
    const auto scope = device("/GPU:0");
    Variables variables;
    variables.emplace_back(reshape(harness::features<float>(1, 36), {3, 3, 1, 4}) - 0.5f);
    variables.emplace_back(zeros({4}, DType::float32));
    variables.emplace_back(harness::features<float>(36, 10) - 0.5f);
    const keras::optimizers::SGD optimizer(0.05, {.momentum = 0.9});
    const auto step = function([&](const Tensor& x, const Tensor& y) {
      GradientTape tape;
      const Tensor h = max_pool2d(relu(conv2d(x, variables[0]) + variables[1]));
      const Tensor logits = matmul(reshape(h, {h.shape()[0], 36}), variables[2]);
      const Tensor loss = compute_average_loss(softmax_cross_entropy_with_logits(y, logits));
      optimizer.apply_gradients(tape.gradient(loss, variables), variables);
      return loss;
    });
    Floats values;
    for (int i = 0; i < 6; ++i) {
      const Tensor x = reshape(harness::features<float>(3, 64), {3, 8, 8, 1});
      values.push_back(step(x, harness::labels<float>(3)).item<float>());
    }
    add_weights(variables, values);
    captures = captures_of(step.explain());
    return values;
  });
  EXPECT_GT(captures.replayed, 0);
}

TEST_P(CapturedStepsTest, RandomNumbersAdvance) {
  expect_same([] {
    const auto scope = device("/GPU:0");
    const auto f = function([](const Tensor& x) {
      const Tensor h = dropout(relu(x * 2.0f), 0.5);
      return exp(dropout(h, 0.25) * 0.1f) + h;
    });
    Floats all;
    Floats last;
    for (int i = 0; i < 8; ++i) {
      const Floats drawn = f(batch(4, 0)).to_vector<float>();
      EXPECT_NE(drawn, last) << i;
      last = drawn;
      all.insert(all.end(), drawn.begin(), drawn.end());
    }
    return all;
  });
}

TEST_P(CapturedStepsTest, ALearningRateThatChangesIsThatOfTheStep) {
  expect_same([] {
    const auto scope = device("/GPU:0");
    const harness::Classifier<float> model({kColumns, 10});
    const auto step = model.compiled_step();
    Floats values;
    for (int i = 0; i < 8; ++i) {
      model.optimizer.learning_rate().assign(Tensor(0.01 * (i + 1)));
      values.push_back(step(batch(4, i), harness::labels<float>(4)).item<float>());
    }
    add_weights(model.variables, values);
    return values;
  });
}

TEST_P(CapturedStepsTest, ABadLabelIsNamedChangesNothingAndTrainingGoesOn) {
  expect_same([] {
    const auto scope = device("/GPU:0");
    Variables variables;
    variables.emplace_back(harness::features<float>(kColumns, 5) - 0.5f);
    variables.emplace_back(zeros({5}, DType::float32));
    const keras::optimizers::SGD optimizer(0.1);
    const auto step = function([&](const Tensor& x, const Tensor& y) {
      GradientTape tape;
      const Tensor logits = tanh(matmul(x, variables[0]) + variables[1]);
      const Tensor loss = compute_average_loss(sparse_softmax_cross_entropy_with_logits(y, logits));
      optimizer.apply_gradients(tape.gradient(loss, variables), variables);
      return loss;
    });
    const auto run = [&](int i, int32_t last) {
      const Tensor labels = Tensor::from(std::vector<int32_t>{0, 4, 2, last}, {4});
      return step(batch(4, i), labels);
    };
    Floats values;
    for (int i = 0; i < 5; ++i) values.push_back(run(i, 1).item<float>());
    for (int bad = 0; bad < 2; ++bad) {
      Floats before;
      add_weights(variables, before);
      const Tensor loss = run(5, 17);
      // What follows a bad step is bad until somebody hears of it, who may be the step itself.
      EXPECT_TRUE(throws<InvalidArgument>([&] { run(6, 1).item<float>(); }, {"17"}));
      EXPECT_TRUE(throws<InvalidArgument>([&] { loss.item<float>(); }, {"17"}));
      Floats after;
      add_weights(variables, after);
      EXPECT_EQ(after, before);
      for (int i = 0; i < 3; ++i) values.push_back(run(i, 3).item<float>());
    }
    add_weights(variables, values);
    return values;
  });
}

TEST_P(CapturedStepsTest, EachNumberOfRowsIsCapturedByItself) {
  std::string explained;
  expect_same([&] {
    const auto scope = device("/GPU:0");
    const harness::Classifier<float> model({kColumns, 8, 10});
    const auto step = model.compiled_step();
    Floats values;
    int i = 0;
    for (const int64_t rows : {4, 4, 4, 4, 7, 7, 7, 7, 2, 4, 7}) {
      values.push_back(step(batch(rows, i++), harness::labels<float>(rows)).item<float>());
    }
    add_weights(model.variables, values);
    explained = step.explain();
    return values;
  });
  EXPECT_GE(captures_of(explained).captured, 2);
  EXPECT_GE(captures_of(explained).replayed, 2);
}

TEST_P(CapturedStepsTest, ManyAddressesAndSwitchesOnTheWayAreFine) {
  expect_same([] {
    const auto scope = device("/GPU:0");
    const auto f = function([](const Tensor& x) { return exp(x * 0.5f) + tanh(relu(x)) * x; });
    Floats values;
    Tensors kept;  // Results that somebody holds have other addresses each time.
    for (int i = 0; i < 30; ++i) {
      const Tensor y = f(batch(3, i) + 0.0f);
      kept.push_back(y);
      const Floats numbers = y.to_vector<float>();
      values.insert(values.end(), numbers.begin(), numbers.end());
    }
    return values;
  });
  const auto scope = device("/GPU:0");
  const auto f = function([](const Tensor& x) { return exp(x * 0.5f) + tanh(relu(x)) * x; });
  const Floats wanted = f(batch(3, 0)).to_vector<float>();
  for (const auto when : {CapturedSteps::on, CapturedSteps::off, CapturedSteps::on}) {
    config::set_captured_steps(when);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(f(batch(3, 0)).to_vector<float>(), wanted);
  }
}

TEST_P(CapturedStepsTest, WhatReadsOnTheHostIsNotCaptured) {
  begin(true);
  const auto scope = device("/GPU:0");
  const auto f = function([](const Tensor& x) {
    const Tensor y = exp(tanh(relu(x) * 2.0f) + x);
    return cond(
        reduce_sum(x) > 0.0f, [&] { return y * 2.0f; }, [&] { return y - 1.0f; });
  });
  for (int i = 0; i < 4; ++i) f(batch(3, i)).to_vector<float>();
  EXPECT_EQ(captures_of(f.explain()).captured, 0);
}

TEST_P(CapturedStepsTest, ReplicasAreCapturedBetweenTheirMeetings) {
  Captures captures;
  expect_same([&] {
    const distribute::MirroredStrategy strategy({"/GPU:0", "/GPU:1"});
    const auto scope = strategy.scope();
    const harness::Classifier<float> model({kColumns, 9, 10});
    const auto step = model.compiled_step();
    Floats values;
    for (int i = 0; i < 7; ++i) {
      const auto losses = strategy.run(step, strategy.split(batch(6, i)),
                                       strategy.split(harness::labels<float>(6)));
      values.push_back(strategy.reduce(distribute::ReduceOp::sum, losses).item<float>());
    }
    add_weights(model.variables, values);
    captures = captures_of(step.explain(), "/device:GPU:1");
    return values;
  });
  EXPECT_GT(captures.replayed, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, CapturedStepsTest,
                         testing::Values(Backend{"cuda", true}, Backend{"opencl", false}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::graph
