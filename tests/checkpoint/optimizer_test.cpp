// Optimizers in checkpoints: Keras's names, and going on where training was.
#include <gtest/gtest.h>

#include "harness/classifier.h"
#include "harness/fresh_devices.h"
#include "harness/temp_folder.h"
#include "tandem/tandem.h"
#include "tensor/store.h"

namespace tandem::train {
namespace {

using Floats = std::vector<float>;

const std::filesystem::path kKeras =
    std::filesystem::path(TANDEM_FIXTURES_DIR) / "tensorflow_checkpoints" / "classifier";

class OptimizerCheckpointTest : public harness::FreshDevices {
 protected:
  harness::TempFolder folder_;
};

struct Trained {
  explicit Trained(double rate = 0.01) : classifier({4, 3, 10}, rate) {}

  Trackable model() const {
    const Trackable node;
    for (const Variable& v : classifier.variables) node.track(v.name(), v);
    return node;
  }
  Checkpoint checkpoint() const {
    return Checkpoint({{"model", model()}, {"optimizer", classifier.optimizer}});
  }
  void train(int steps) const {
    for (int i = 0; i < steps; ++i) {
      classifier.train_step(harness::features<float>(6, 4), harness::labels<float>(6));
    }
  }
  std::vector<Floats> weights() const {
    std::vector<Floats> all;
    for (const Variable& v : classifier.variables) all.push_back(v.value().to_vector<float>());
    return all;
  }

  harness::Classifier<float> classifier;
};

TEST_F(OptimizerCheckpointTest, StateHasTheNamesThatKerasGivesIt) {
  const Trained trained;
  trained.train(1);
  trained.checkpoint().write(folder_ / "c");
  std::vector<std::string> names;
  for (const std::string& key : load_checkpoint(folder_ / "c").keys()) {
    if (key.starts_with("optimizer/") && key.ends_with("/VARIABLE_VALUE")) {
      names.push_back(key.substr(0, key.find("/.ATTRIBUTES")));
    }
  }
  std::vector<std::string> expected = {"optimizer/_iterations", "optimizer/_learning_rate"};
  for (int i = 2; i < 10; ++i) expected.push_back("optimizer/_variables/" + std::to_string(i));
  EXPECT_EQ(names, expected);
}

TEST_F(OptimizerCheckpointTest, TrainingGoesOnAsIfItHadNotStopped) {
  const Trained whole(0.013);
  whole.train(5);
  whole.checkpoint().save(folder_ / "ckpt");
  whole.train(5);

  const Trained resumed;
  const auto status = resumed.checkpoint().restore(folder_ / "ckpt-1");  // Before it has slots.
  EXPECT_THROW(status.assert_consumed(), FailedPrecondition);
  EXPECT_EQ(resumed.classifier.optimizer.learning_rate().value().item<double>(), 0.013);
  resumed.train(5);
  status.assert_consumed();
  EXPECT_EQ(resumed.weights(), whole.weights());
}

TEST_F(OptimizerCheckpointTest, ACompiledStepTakesItsSlotsWhenItIsTraced) {
  const Trained whole;
  whole.train(5);
  whole.checkpoint().save(folder_ / "ckpt");
  const auto x = harness::features<float>(6, 4);
  const auto y = harness::labels<float>(6);
  const auto continued = whole.classifier.compiled_step();
  for (int i = 0; i < 3; ++i) continued(x, y);

  const Trained resumed;
  const auto status = resumed.checkpoint().restore(folder_ / "ckpt-1");
  const auto step = resumed.classifier.compiled_step();
  for (int i = 0; i < 3; ++i) step(x, y);
  status.assert_consumed();
  EXPECT_EQ(resumed.weights(), whole.weights());
}

TEST_F(OptimizerCheckpointTest, AKerasModelAndItsAdamGoOnHere) {
  Variables variables;
  for (const Shape& shape : {Shape{3, 4}, Shape{4}, Shape{4, 2}, Shape{2}}) {
    variables.emplace_back(zeros(shape));
  }
  // As Keras has it: a Sequential holds a functional model, whose first operation is the input.
  const Trackable operations;
  operations.track("0", Trackable());
  for (size_t layer = 0; layer < 2; ++layer) {
    const Trackable dense;
    dense.track("_kernel", variables[2 * layer]);
    dense.track("bias", variables[2 * layer + 1]);
    operations.track(std::to_string(layer + 1), dense);
  }
  const Trackable functional;
  functional.track("_operations", operations);
  const Trackable model;
  model.track("_functional", functional);
  const keras::optimizers::Adam optimizer(0.5);
  const Checkpoint checkpoint({{"model", model}, {"optimizer", optimizer}});
  const auto status = checkpoint.restore(latest_checkpoint(kKeras));

  std::vector<float> inputs;
  for (int i = 0; i < 12; ++i) inputs.push_back(static_cast<float>(i) / 12);
  const Tensor x = Tensor::from(inputs, {4, 3});
  const Tensor y = Tensor::from<float>({1, 0, 0, 1, 0, 1, 1, 0}, {4, 2});
  GradientTape tape;
  const Tensor hidden = relu(matmul(x, variables[0]) + variables[1]);
  const Tensor logits = matmul(hidden, variables[2]) + variables[3];
  const Tensor loss = reduce_mean(softmax_cross_entropy_with_logits(y, logits));
  optimizer.apply_gradients(tape.gradient(loss, variables), variables);
  status.assert_consumed();

  EXPECT_EQ(optimizer.iterations().value().item<int64_t>(), 3);
  EXPECT_FLOAT_EQ(static_cast<float>(optimizer.learning_rate().value().item<double>()), 0.01f);
  const NamedTensors expected = load_npz(kKeras / "expected.npz");
  for (size_t i = 0; i < variables.size(); ++i) {
    const auto wanted = expected.at(std::to_string(i)).to_vector<float>();
    const auto got = variables[i].value().to_vector<float>();
    for (size_t j = 0; j < wanted.size(); ++j) EXPECT_NEAR(got[j], wanted[j], 2e-6) << i << j;
  }
}

// ---- Each optimizer ----

using keras::optimizers::Optimizer;

struct Kind {
  const char* name;
  Optimizer (*make)();
  /// The optimizer's lists, and where in `_variables` the slots of two variables are.
  std::vector<std::pair<std::string, std::vector<int>>> lists;
  bool has_rate = true;
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

/// As Keras 3.15 numbers them.
const Kind kKinds[] = {
    {"sgd", []() -> Optimizer { return keras::optimizers::SGD(0.1); }, {}},
    {"momentum",
     []() -> Optimizer { return keras::optimizers::SGD(0.1, {.momentum = 0.5, .nesterov = true}); },
     {{"momentums", {2, 3}}}},
    {"rmsprop",
     []() -> Optimizer {
       return keras::optimizers::RMSprop(0.1, {.momentum = 0.5, .centered = true});
     },
     {{"_velocities", {2, 3}}, {"_momentums", {4, 5}}, {"_average_gradients", {6, 7}}}},
    {"adagrad",
     []() -> Optimizer { return keras::optimizers::Adagrad(0.1); },
     {{"_accumulators", {2, 3}}}},
    {"amsgrad",
     []() -> Optimizer { return keras::optimizers::Adam(0.1, {.amsgrad = true}); },
     {{"_momentums", {2, 4}}, {"_velocities", {3, 5}}, {"_velocity_hats", {6, 7}}}},
    {"accumulation",
     []() -> Optimizer {
       return keras::optimizers::AdamW(0.1, {.gradient_accumulation_steps = 2});
     },
     {{"_accumulated_gradients", {2, 3}}, {"_momentums", {4, 6}}, {"_velocities", {5, 7}}}},
    {"schedule",
     []() -> Optimizer {
       return keras::optimizers::Adam(keras::optimizers::schedules::ExponentialDecay(0.1, 2, 0.5));
     },
     {{"_momentums", {1, 3}}, {"_velocities", {2, 4}}},
     false},
};

class EachOptimizer : public OptimizerCheckpointTest, public testing::WithParamInterface<Kind> {
 protected:
  struct Training {
    explicit Training(const Kind& kind) : optimizer(kind.make()) {}

    void train(int steps) const {
      for (int i = 0; i < steps; ++i) {
        optimizer.apply_gradients({a.value() * 0.5, b.value() + 1.0}, {a, b});
      }
    }
    Checkpoint checkpoint() const {
      return Checkpoint({{"a", a}, {"b", b}, {"optimizer", optimizer}});
    }
    std::vector<Floats> values() const {
      std::vector<Floats> all = {a.value().to_vector<float>(), b.value().to_vector<float>()};
      for (const Variable& v : optimizer.variables()) {
        all.push_back(cast(v, DType::float32).to_vector<float>());
      }
      return all;
    }

    Optimizer optimizer;
    Variable a{Tensor::from<float>({1, 2, 3}, {3}), {.name = "a"}};
    Variable b{Tensor::from<float>({4, 5}, {2}), {.name = "b"}};
  };
};

TEST_P(EachOptimizer, GoesOnAsIfItHadNotStopped) {
  const Training whole(GetParam());
  whole.train(3);
  whole.checkpoint().save(folder_ / "ckpt");
  whole.train(4);
  const Training resumed(GetParam());
  const auto status = resumed.checkpoint().restore(folder_ / "ckpt-1");
  resumed.train(4);
  status.assert_consumed();
  EXPECT_EQ(resumed.values(), whole.values());
}

/// The files are written by tests/fixtures/make_keras_optimizer_checkpoints.py.
TEST_P(EachOptimizer, GoesOnWhereKerasStopped) {
  const std::string name = GetParam().name;
  const auto folder = std::filesystem::path(TANDEM_FIXTURES_DIR) / "keras_optimizers";
  const Training resumed(GetParam());
  const auto status = resumed.checkpoint().restore(folder / (name + "-1"));
  resumed.train(4);
  status.assert_consumed();
  EXPECT_EQ(resumed.optimizer.iterations().value().item<int64_t>(), 7);
  const NamedTensors expected = load_npz(folder / "expected.npz");
  for (const Variable& v : {resumed.a, resumed.b}) {
    const auto wanted = expected.at(name + "/" + v.name()).to_vector<float>();
    const auto got = v.value().to_vector<float>();
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(got[i], wanted[i], 1e-5) << v.name() << i;
  }
}

TEST_P(EachOptimizer, HasTheListsOfKeras) {
  const Training training(GetParam());
  training.train(3);
  training.checkpoint().write(folder_ / "c");

  // The same state as Keras would build it.
  const Trackable optimizer, variables;
  optimizer.track("_variables", variables);
  std::map<int, Variable> slots;
  size_t count = 0;
  for (const auto& [list, numbers] : GetParam().lists) count += numbers.size();
  const int first = GetParam().has_rate ? 2 : 1;
  variables.track("0", Trackable());
  if (first == 2) variables.track("1", Trackable());
  for (const auto& [list, numbers] : GetParam().lists) {
    const Trackable node;
    for (size_t i = 0; i < 2; ++i) {
      const Variable slot(zeros(i == 0 ? Shape{3} : Shape{2}));
      slots[numbers[i]] = slot;
      node.track(std::to_string(i), slot);
    }
    optimizer.track(list, node);
  }
  for (const auto& [number, slot] : slots) variables.track(std::to_string(number), slot);
  Checkpoint({{"optimizer", optimizer}}).restore(folder_ / "c").expect_partial();

  const Variables own = training.optimizer.variables();
  ASSERT_EQ(own.size(), static_cast<size_t>(first) + count);
  for (const auto& [number, slot] : slots) {
    EXPECT_EQ(slot.value().to_vector<float>(),
              own[static_cast<size_t>(number)].value().to_vector<float>());
  }
}

INSTANTIATE_TEST_SUITE_P(Of, EachOptimizer, testing::ValuesIn(kKinds),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tandem::train
