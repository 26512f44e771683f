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
    std::filesystem::path(TANDEM_TEST_DATA_DIR) / "tensorflow_checkpoints" / "classifier";

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
    if (key.starts_with("optimizer/")) names.push_back(key.substr(0, key.find("/.ATTRIBUTES")));
  }
  std::vector<std::string> expected = {"optimizer/_iterations", "optimizer/_learning_rate",
                                       "optimizer/_learning_rate_float64"};
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

}  // namespace
}  // namespace tandem::train
