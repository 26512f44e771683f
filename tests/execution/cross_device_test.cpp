// Replicas in several memory spaces, compared with one device.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/classifier.h"
#include "harness/replica_group.h"

namespace tandem::graph {
namespace {

using namespace std::chrono_literals;
using distribute::CrossDeviceReduction;
using harness::Classifier;
using harness::Doubles;
using harness::expect_same_components;
using harness::Names;
using harness::Setting;
using Group = harness::ReplicaGroup;
using SpreadTest = harness::SpreadDevices;

const Names kGpus = {"/GPU:0", "/GPU:1"};
const Names kGpuAndCpu = {"/GPU:0", "/CPU:0"};
const Names kGpusAndCpus = {"/GPU:0", "/GPU:1", "/CPU:0", "/CPU:1"};

/// Batches that divide, that do not, and with fewer rows than replicas.
int64_t rows_of_step(int step) {
  constexpr int64_t kRows[] = {64, 37, 3, 1};
  return kRows[step % 4];
}

constexpr int64_t kColumns = 30;

/// What 20 steps leave behind: the loss of each step, then all weights.
template <class Model, class Train>
Doubles trained(const Model& model, Train train) {
  Doubles history;
  for (int step = 0; step < 20; ++step) {
    const int64_t rows = rows_of_step(step);
    history.push_back(
        train(Tensors{harness::features<double>(rows, kColumns), harness::labels<double>(rows)}));
  }
  for (const Variable& variable : model.variables) {
    const Doubles values = variable.value().template to_vector<double>();
    history.insert(history.end(), values.begin(), values.end());
  }
  return history;
}

void expect_near(const Doubles& values, const Doubles& wanted, const std::string& what) {
  ASSERT_EQ(values.size(), wanted.size());
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    worst = std::max(worst, std::abs(values[i] - wanted[i]));
    ASSERT_FALSE(std::isnan(values[i])) << what;
  }
  EXPECT_LT(worst, 1e-12) << what;
}

Doubles classifier_on_one_device() {
  const auto scope = device("/CPU:0");
  const Classifier<double> model({kColumns, 16, 10});
  const auto step = model.compiled_step();
  return trained(model, [&](const Tensors& batch) {
    return step(batch[0], batch[1]).template item<double>();
  });
}

Doubles classifier_on(const Setting& setting) {
  const Group group(setting);
  const StoreScope scope(group.store());
  const Classifier<double> model({kColumns, 16, 10});
  const auto step = model.compiled_step();
  const Doubles history =
      trained(model, [&](const Tensors& batch) { return group.total(step, batch); });
  expect_same_components(model.variables);
  expect_same_components(model.optimizer.variables());
  return history;
}

TEST_F(SpreadTest, AClassifierTrainsAsOnOneDevice) {
  const Doubles one = classifier_on_one_device();
  for (const Names& names : {kGpus, kGpuAndCpu, kGpusAndCpus}) {
    for (CrossDeviceReduction reduction :
         {CrossDeviceReduction::automatic, CrossDeviceReduction::ranges,
          CrossDeviceReduction::one_device}) {
      const Setting setting{.devices = names, .reduction = reduction};
      expect_near(classifier_on(setting), one, setting.str());
    }
  }
}

TEST_F(SpreadTest, ADeviceMayHaveSeveralReplicas) {
  const Doubles one = classifier_on_one_device();
  for (const Names& names : {Names{"/GPU:0", "/GPU:0"}, Names{"/GPU:0", "/GPU:1", "/GPU:0"},
                             Names{"/CPU:0", "/GPU:0", "/CPU:0", "/GPU:0"}}) {
    for (CrossDeviceReduction reduction :
         {CrossDeviceReduction::ranges, CrossDeviceReduction::one_device}) {
      const Setting setting{.devices = names, .reduction = reduction};
      expect_near(classifier_on(setting), one, setting.str());
    }
  }
}

TEST_F(SpreadTest, CentralVariablesTrainAsOnOneDevice) {
  const Doubles one = classifier_on_one_device();
  const Setting settings[] = {{kGpus, "/CPU:0"},
                              {kGpus, "/CPU:1"},
                              {kGpus, "/GPU:0"},
                              {kGpus, "/GPU:1"},
                              {kGpuAndCpu, "/CPU:0"},
                              {kGpuAndCpu, "/GPU:0"},
                              {kGpuAndCpu, "/GPU:1"},
                              {kGpusAndCpus, "/CPU:1"},
                              {{"/GPU:0"}, "/CPU:0"},
                              {{"/CPU:0"}, "/GPU:0"},
                              {{"/GPU:0"}, "/GPU:1"},
                              {{"/GPU:0", "/GPU:0"}, "/CPU:0"},
                              {{"/CPU:0", "/CPU:1"}, "/CPU:2"},
                              {{"/CPU:0", "/CPU:1"}, "/GPU:0"}};
  for (const Setting& setting : settings) expect_near(classifier_on(setting), one, setting.str());
}

TEST_F(SpreadTest, TheBitsDoNotDependOnWhereTheReplicasAre) {
  const auto on = [](const Names& names, CrossDeviceReduction reduction) {
    return classifier_on({.devices = names, .reduction = reduction, .single_threaded = true});
  };
  const Doubles wanted =
      on({"/CPU:0", "/CPU:1", "/CPU:2", "/CPU:3"}, CrossDeviceReduction::automatic);
  for (const Names& names : {Names(4, "/GPU:0"), Names{"/GPU:0", "/GPU:0", "/GPU:1", "/GPU:1"},
                             Names{"/GPU:0", "/CPU:0", "/GPU:1", "/CPU:1"}}) {
    for (CrossDeviceReduction reduction :
         {CrossDeviceReduction::ranges, CrossDeviceReduction::one_device}) {
      EXPECT_EQ(on(names, reduction), wanted) << names[3];
    }
  }
}

TEST_F(SpreadTest, LateQueuesChangeNothing) {
  const Doubles one = classifier_on_one_device();
  devices_with({.delay = 200us}, {.delay = 50us});
  const Setting settings[] = {{.devices = kGpusAndCpus, .reduction = CrossDeviceReduction::ranges},
                              {.devices = kGpus, .central = "/CPU:0"}};
  for (const Setting& setting : settings) expect_near(classifier_on(setting), one, setting.str());
}

/// A model with a layer, an optimizer and a metric, as the settings of a test want them.
struct TrainedModel {
  explicit TrainedModel(const keras::optimizers::Adam& adam, bool normalizes = false,
                        double drops = 0)
      : optimizer(adam) {
    std::vector<double> values(static_cast<size_t>(kColumns * 10));
    for (size_t i = 0; i < values.size(); ++i) values[i] = harness::uniform(9, i) - 0.5;
    variables.emplace_back(Tensor::from(values, {kColumns, 10}), VariableOptions{.name = "w"});
    if (normalizes) {
      normalization = keras::layers::BatchNormalization({.synchronized = true});
      normalization->build({{DType::float64, {-1, 10}}});
      for (const Variable& v : normalization->trainable_weights()) variables.push_back(v);
    }
    dropped = drops;
    step = std::make_shared<Step>([this](const Tensor& x, const Tensor& y) {
      GradientTape tape;
      Tensor h = dropped > 0 ? dropout(x, dropped) : x;
      h = matmul(h, variables[0]);
      if (normalization) h = (*normalization)(h, {.training = true});
      const Tensor loss = compute_average_loss(softmax_cross_entropy_with_logits(y, h));
      optimizer.apply_gradients(tape.gradient(loss, variables), variables);
      accuracy.update_state(y, h);
      return loss;
    });
  }

  Doubles state() const {
    Doubles values{accuracy.result()};
    Variables all = variables;
    if (normalization) {
      for (const Variable& v : normalization->non_trainable_weights()) all.push_back(v);
    }
    for (const Variable& v : all) {
      const Doubles own = v.value().to_vector<double>();
      values.insert(values.end(), own.begin(), own.end());
    }
    return values;
  }

  using Step = Function<Tensor, const Tensor&, const Tensor&>;
  Variables variables;
  keras::optimizers::Adam optimizer;
  keras::metrics::CategoricalAccuracy accuracy;
  std::optional<keras::layers::BatchNormalization> normalization;
  double dropped = 0;
  std::shared_ptr<Step> step;
};

/// The same training on one device and on the devices of several settings.
template <class Make>
void expect_as_on_one_device(Make make) {
  const auto histories = [&](const TrainedModel& model, auto train) {
    random::set_seed(7);
    Doubles history = trained(model, train);
    const Doubles state = model.state();
    history.insert(history.end(), state.begin(), state.end());
    return history;
  };
  Doubles one;
  {
    const auto scope = device("/CPU:0");
    const auto model = make();
    one = histories(*model, [&](const Tensors& batch) {
      return (*model->step)(batch[0], batch[1]).template item<double>();
    });
  }
  const Setting settings[] = {{.devices = kGpus},
                              {.devices = kGpusAndCpus, .reduction = CrossDeviceReduction::ranges},
                              {.devices = kGpus, .central = "/CPU:0"},
                              {.devices = kGpuAndCpu, .central = "/GPU:0"}};
  for (const Setting& setting : settings) {
    const Group group(setting);
    const StoreScope scope(group.store());
    const auto model = make();
    const Doubles many =
        histories(*model, [&](const Tensors& batch) { return group.total(*model->step, batch); });
    expect_near(many, one, setting.str());
    expect_same_components(model->variables);
    expect_same_components(model->optimizer.variables());
  }
}

TEST_F(SpreadTest, NormalisationOverAllReplicasIsThatOfOneDevice) {
  expect_as_on_one_device(
      [] { return std::make_shared<TrainedModel>(keras::optimizers::Adam(0.01), true); });
}

TEST_F(SpreadTest, AccumulatedGradientsAreThoseOfOneDevice) {
  expect_as_on_one_device([] {
    return std::make_shared<TrainedModel>(
        keras::optimizers::Adam(0.01, {.gradient_accumulation_steps = 3}));
  });
}

TEST_F(SpreadTest, ClippingByTheGlobalNormIsThatOfOneDevice) {
  expect_as_on_one_device([] {
    return std::make_shared<TrainedModel>(keras::optimizers::Adam(0.01, {.global_clipnorm = 0.05}));
  });
}

TEST_F(SpreadTest, RandomNumbersAreThoseOfTheGlobalRow) {
  expect_as_on_one_device(
      [] { return std::make_shared<TrainedModel>(keras::optimizers::Adam(0.01), false, 0.4); });
}

}  // namespace
}  // namespace tandem::graph
