// A device's queues beside the one that computes: arguments that come while the run before still
// computes, and gradients that are summed while the backward pass goes on. Test devices run each
// queue's commands late and at random, so a wait that is missing shows as a wrong number.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/classifier.h"
#include "harness/replica_group.h"

namespace tandem::graph {
namespace {

using namespace std::chrono_literals;
using harness::Classifier;
using harness::Doubles;
using harness::expect_same_components;
using harness::Setting;
using Group = harness::ReplicaGroup;

class SeveralQueues : public harness::SpreadDevices {
 protected:
  void SetUp() override { devices_with(late(), late()); }
  static devices::test::TestDeviceOptions late() { return {.delay = 300us, .random_delay = true}; }
};

/// So large that it comes on the input queue.
Tensor all_of(double value, int64_t rows = 16) { return fill({rows, 1000}, value, DType::float64); }

Tensor on_host(const Tensor& tensor) { return copy_to_device(tensor, "/CPU:0"); }

TEST_F(SeveralQueues, EachRunReadsItsOwnArgument) {
  const auto scope = device("/GPU:0");
  const auto f = function([](const Tensor& x, const Tensor& small) {
    return reduce_sum(x) + reduce_sum(exp(x * 0.0)) + reduce_sum(small);
  });
  Tensors results;
  for (int i = 0; i < 40; ++i) {
    const int64_t rows = i % 10 == 9 ? 40 : 16;  // Memory for larger ones is new.
    const Tensor x = on_host(all_of(i, rows));
    results.push_back(f(x, fill({1}, i, DType::float64)));
  }
  for (int i = 0; i < 40; ++i) {
    const double count = i % 10 == 9 ? 40'000 : 16'000;
    EXPECT_EQ(results[static_cast<size_t>(i)].item<double>(), count * i + count + i) << i;
  }
}

TEST_F(SeveralQueues, WhatHoldsAnArgumentLastsUntilItWasCopied) {
  const auto scope = device("/GPU:0");
  const Variable sum(fill({}, 0.0, DType::float64));
  const auto f = function([&](const Tensor& x) {
    sum.assign_add(reduce_sum(x));
    return reduce_max(x);
  });
  for (int i = 0; i < 30; ++i) f(on_host(all_of(i)));  // Nobody else has it.
  EXPECT_EQ(sum.value().item<double>(), 16'000 * 435.0);
}

constexpr int64_t kColumns = 30;

/// What a few steps leave behind: the losses, then all weights.
template <class Train>
Doubles trained(const Classifier<double>& model, Train train) {
  Doubles history;
  for (int64_t rows : {16, 7, 1, 16, 9}) {
    history.push_back(
        train(Tensors{harness::features<double>(rows, kColumns), harness::labels<double>(rows)}));
  }
  for (const Variable& variable : model.variables) {
    const Doubles values = variable.value().to_vector<double>();
    history.insert(history.end(), values.begin(), values.end());
  }
  return history;
}

/// Two of its layers are a bucket each.
const std::vector<int64_t> kSizes = {kColumns, 370, 370, 370, 10};

Doubles trained_on_one() {
  const auto scope = device("/CPU:1");
  const Classifier<double> model(kSizes, 0.001);
  const auto step = model.compiled_step();
  return trained(model,
                 [&](const Tensors& batch) { return step(batch[0], batch[1]).item<double>(); });
}

void expect_near(const Doubles& values, const Doubles& wanted, const std::string& what) {
  ASSERT_EQ(values.size(), wanted.size());
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_FALSE(std::isnan(values[i])) << what;
    worst = std::max(worst, std::abs(values[i] - wanted[i]));
  }
  EXPECT_LT(worst, 1e-10) << what;
}

TEST_F(SeveralQueues, GradientsThatAreSummedBesideTheBackwardPassAreThoseOfOneDevice) {
  const Doubles one = trained_on_one();
  const Setting settings[] = {{.devices = {"/GPU:0", "/GPU:1"}},
                              {.devices = {"/GPU:0", "/GPU:1", "/GPU:0"}},
                              {.devices = {"/GPU:0", "/GPU:1"}, .central = "/GPU:1"}};
  for (const Setting& setting : settings) {
    const Group group(setting);
    const StoreScope scope(group.store());
    const Classifier<double> model(kSizes, 0.001);
    const auto step = model.compiled_step();
    const Doubles several =
        trained(model, [&](const Tensors& batch) { return group.total(step, batch); });
    expect_near(several, one, setting.str());
    expect_same_components(model.variables);
    EXPECT_NE(group.reduction().find("2.2 MB of it in buckets"), std::string::npos)
        << group.reduction();
  }
}

TEST_F(SeveralQueues, BesideACpuGradientsAreSummedInOnePlace) {
  const Group group({.devices = {"/GPU:0", "/CPU:0"}});
  const StoreScope scope(group.store());
  const Classifier<double> model(kSizes, 0.001);
  const auto step = model.compiled_step();
  group.total(step, {harness::features<double>(4, kColumns), harness::labels<double>(4)});
  EXPECT_EQ(group.reduction().find("buckets"), std::string::npos) << group.reduction();
}

TEST_F(SeveralQueues, AFaultReachesTheOtherDevicesThoughTheirSumsHaveBegun) {
  const Group group({.devices = {"/GPU:0", "/GPU:1"}});
  const StoreScope scope(group.store());
  const Classifier<double> model(kSizes, 0.001);
  const auto step = function([&](const Tensor& x, const Tensor& y, const Tensor& rows) {
    const Tensor table = fill({2, 1}, 1.0, DType::float64);
    GradientTape tape;
    const Tensor loss = compute_average_loss(softmax_cross_entropy_with_logits(y, model.logits(x)) *
                                             reduce_sum(gather(table, rows), {.axes = {{1}}}));
    model.optimizer.apply_gradients(tape.gradient(loss, model.variables), model.variables);
    return loss;
  });
  const auto run = [&](int32_t last) {
    return group.total(step, {harness::features<double>(4, kColumns), harness::labels<double>(4),
                              Tensor::from(std::vector<int32_t>{0, 1, 1, last}, {4})});
  };
  run(0);
  const auto before = model.variables[0].value().to_vector<double>();
  EXPECT_THROW(run(7), Error);
  EXPECT_EQ(model.variables[0].value().to_vector<double>(), before);
  expect_same_components(model.variables);
  run(1);
  EXPECT_NE(model.variables[0].value().to_vector<double>(), before);
  expect_same_components(model.variables);
}

}  // namespace
}  // namespace tandem::graph
