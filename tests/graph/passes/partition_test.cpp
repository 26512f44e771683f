#include <gtest/gtest.h>

#include <algorithm>

#include "device/copies.h"
#include "graph/passes/passes.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/control_flow.h"
#include "tandem/device.h"
#include "tandem/device/placement.h"
#include "tandem/distribute.h"
#include "tandem/function.h"
#include "tandem/gradient_tape.h"
#include "tandem/keras/optimizers.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using harness::throws;
using Floats = std::vector<float>;

class PartitionTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::add_test_device();
    config::add_test_device();
  }
};

Tensor pair() { return Tensor::from<float>({1, 2}, {2}); }

TEST_F(PartitionTest, AScopeInsideAFunctionHoldsForItsOps) {
  const auto f = function([](const Tensor& x) {
    const Tensor y = x + 1.0;
    Tensor z;
    {
      const auto scope = device("/GPU:1");
      z = y * y;
    }
    const auto scope = device("/CPU:0");
    return std::pair(z - 1.0, z);
  });
  for (int i = 0; i < 3; ++i) {
    const auto [a, b] = f(pair());
    EXPECT_EQ(a.device(), "/device:CPU:0");
    EXPECT_EQ(b.device(), "/device:GPU:1");
    EXPECT_EQ(a.to_vector<float>(), (Floats{3, 8}));
    EXPECT_EQ(b.to_vector<float>(), (Floats{4, 9}));
  }
  const std::string text = f.explain();
  for (const char* name : {"on /device:GPU:0", "on /device:GPU:1", "on /device:CPU:0"}) {
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

/// Nothing of it is handed on from one segment to another.
TEST_F(PartitionTest, AVariableIsReadInTheSegmentThatUsesItsValue) {
  constexpr int64_t kCount = 1024;
  const auto here = device("/GPU:0");
  const Variable v(ones({kCount}));
  const auto over = [&](bool writes) {
    return function([&v, writes](const Tensor& x) {
      const Tensor value = v.value();
      const Tensor moved = x + 1.0;
      if (writes) v.assign(value * 0.5);
      const Tensor squared = [&] {
        const auto there = device("/GPU:1");
        return moved * moved;
      }();
      return value * squared;
    });
  };
  const auto reads = over(false);
  const Tensor x = ones({kCount});
  EXPECT_EQ(reads(x).to_vector<float>(), Floats(kCount, 4));
  const MemoryPlan plan = reads.memory_plan(1);
  const auto own = std::ranges::find(plan.devices, "/device:GPU:0", &MemoryPlan::Device::name);
  ASSERT_NE(own, plan.devices.end());
  EXPECT_EQ(own->result_bytes, 2 * kCount * sizeof(float));  // `moved` and what is returned.
  // What was read before a write is the value that was there then.
  EXPECT_EQ(over(true)(x).to_vector<float>(), Floats(kCount, 4));
  EXPECT_EQ(v.value().to_vector<float>(), Floats(kCount, 0.5f));
}

/// Two dense layers, each on a device of its own, trained by one function.
class TwoDeviceModel {
 public:
  TwoDeviceModel(const char* first, const char* second) {
    w1_ = made(first, {4, 8}, 1);
    w2_ = made(second, {8, 3}, 2);
  }

  Tensor step(const Tensor& x, const Tensor& labels) const {
    GradientTape tape;
    const Tensor hidden = tanh(matmul(x, w1_.value()));
    const Tensor loss =
        reduce_mean(sparse_softmax_cross_entropy_with_logits(labels, matmul(hidden, w2_.value())));
    const Variables variables{w1_, w2_};
    const Tensors gradients = tape.gradient(loss, variables);
    optimizer_.apply_gradients(gradients, variables);
    return loss;
  }

  Floats weights() const {
    Floats all = w1_.value().to_vector<float>();
    const Floats more = w2_.value().to_vector<float>();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

 private:
  static Variable made(const char* name, const Shape& shape, uint64_t seed) {
    const auto scope = device(name);
    return Variable(random_uniform(shape, -1, 1, {.seed = seed}), {.name = "w"});
  }

  Variable w1_, w2_;
  keras::optimizers::Adam optimizer_{0.01};
};

TEST_F(PartitionTest, AModelOverTwoMemorySpacesTrainsAsOnOneDevice) {
  const Tensor x = random_uniform({6, 4}, -1, 1, {.seed = 5});
  const Tensor labels = Tensor::from<int32_t>({0, 1, 2, 0, 1, 2}, {6});
  const auto trained = [&](const char* first, const char* second) {
    random::set_seed(7);
    const TwoDeviceModel model(first, second);
    const auto step = function([&](const Tensor& x, const Tensor& y) { return model.step(x, y); });
    for (int i = 0; i < 5; ++i) step(x, labels);
    EXPECT_EQ(step.trace_count(), 1);
    return model.weights();
  };
  const Floats expected = trained("/CPU:0", "/CPU:0");
  for (const auto& [a, b] : {std::pair("/GPU:0", "/GPU:1"), std::pair("/GPU:1", "/CPU:0")}) {
    const Floats found = trained(a, b);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << a << b;
  }
}

TEST_F(PartitionTest, WhatIsCopiedBetweenDevicesIsExplained) {
  // Article 002, example 2: a product on each GPU, and their sum.
  const auto f = function([](const Tensor& a, const Tensor& c) {
    Tensor b, d;
    {
      const auto scope = device("/GPU:0");
      b = matmul(a, a);
    }
    {
      const auto scope = device("/GPU:1");
      d = matmul(c, c);
    }
    const auto scope = device("/GPU:0");
    return b + d;
  });
  f(fill({50, 50}, 1.0), fill({50, 50}, 2.0));
  const std::string text = f.explain();
  EXPECT_NE(text.find("  /device:GPU:1 to /device:GPU:0: 1 value, 10"), std::string::npos) << text;
  EXPECT_EQ(text.find("ping-pong"), std::string::npos) << text;
}

TEST_F(PartitionTest, ValuesThatGoBackAndForthAreWarnedOf) {
  const auto f = function([](const Tensor& x) {
    Tensor y = x;
    for (const char* name : {"/GPU:0", "/GPU:1", "/GPU:0", "/GPU:1"}) {
      const auto scope = device(name);
      y = relu(matmul(y, y));
    }
    return y;
  });
  f(fill({5, 5}, 1.0));
  EXPECT_NE(f.explain().find("ping-pong: values change direction between /device:GPU:0 and "
                             "/device:GPU:1 2 times"),
            std::string::npos)
      << f.explain();
}

TEST_F(PartitionTest, OnlyWhatCrossesIsCopied) {
  const TwoDeviceModel model("/GPU:0", "/GPU:1");
  const auto step = function([&](const Tensor& x, const Tensor& y) { return model.step(x, y); });
  Tensor x, labels;
  {
    const auto scope = device("/GPU:0");
    x = identity(random_uniform({6, 4}));
  }
  {
    const auto scope = device("/GPU:1");
    labels = identity(Tensor::from<int32_t>({0, 1, 2, 0, 1, 2}, {6}));
  }
  step(x, labels);
  const auto text = step.explain();
  // Forward on the first, forward and backward on the second, backward on the first.
  size_t segments = 0;
  for (size_t at = text.find("\non "); at != std::string::npos; at = text.find("\non ", at + 1)) {
    ++segments;
  }
  EXPECT_EQ(segments, 3u) << text;
  // Each run: the first layer's result goes over, with the rate and number of the step; the
  // gradient comes back.
  reset_copy_report();
  step(x, labels);
  const auto copies = copy_report();
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0], (CopyCount{"/device:GPU:0", "/device:GPU:1", 3, 6 * 8 * 4 + 8 + 8}));
  EXPECT_EQ(copies[1], (CopyCount{"/device:GPU:1", "/device:GPU:0", 1, 6 * 8 * 4}));
}

TEST_F(PartitionTest, WhatSeveralStagesUseCrossesOnce) {
  const auto f = function([](const Tensor& x) {
    const auto on = [](const char* name, const auto& g) {
      const auto scope = device(name);
      return g();
    };
    const Tensor a = on("/GPU:0", [&] { return relu(x); });
    const Tensor b = on("/GPU:1", [&] { return matmul(x, a); });
    const Tensor c = on("/GPU:0", [&] { return matmul(b, b); });
    return on("/GPU:1", [&] { return matmul(x, c) + a; });
  });
  Tensor x;
  {
    const auto scope = device("/CPU:0");
    x = identity(random_uniform({4, 4}, -1, 1, {.seed = 3}));
  }
  f(x);
  reset_copy_report();
  f(x);
  const std::string host = "/device:CPU:0", first = "/device:GPU:0", second = "/device:GPU:1";
  EXPECT_EQ(copy_report(), (std::vector<CopyCount>{{host, first, 1, 64},       // x
                                                   {host, second, 1, 64},      // x
                                                   {first, second, 2, 128},    // a, c
                                                   {second, first, 1, 64}}));  // b
}

TEST_F(PartitionTest, TheMemoryPlanCoversAllDevices) {
  const auto f = function([](const Tensor& x) {
    const Tensor y = matmul(x, x) * 2.0;
    const auto scope = device("/GPU:1");
    return matmul(y, y) + 1.0;
  });
  Tensor x;
  {
    const auto scope = device("/GPU:0");
    x = identity(ones({100, 100}));
  }
  f.trace(x);
  const auto used = [](const char* name) { return config::get_memory_info(name).current; };
  const MemoryPlan plan = f.memory_plan(100);
  std::map<std::string, size_t> before;
  for (const auto& device : plan.devices) before[device.name] = used(device.name.c_str());
  const Tensor y = f(x);
  y.to_vector<float>();
  ASSERT_EQ(plan.devices.size(), 2u);
  for (const auto& device : plan.devices) {
    EXPECT_EQ(used(device.name.c_str()) - before[device.name], device.bytes()) << device.name;
  }
}

TEST_F(PartitionTest, ScopesInsideBranchesAndReplicasAreRefused) {
  const auto f = function([](const Tensor& x) {
    return cond(
        greater(reduce_sum(x), Tensor(0.0f)),
        [&] {
          const auto scope = device("/GPU:1");
          return x * 2.0;
        },
        [&] { return x; });
  });
  EXPECT_TRUE(throws<FailedPrecondition>([&] { f(pair()); }, {"device scope inside cond"}));
  const distribute::MirroredStrategy strategy({"/CPU:0"});
  const auto scoped = function([](const Tensor& x) {
    const auto scope = device("/GPU:1");
    return x * 2.0;
  });
  EXPECT_TRUE(throws<FailedPrecondition>([&] { strategy.run(scoped, pair()); },
                                         {"GPU:1", "inside strategy.run"}));
  EXPECT_NO_THROW(strategy.run(function([](const Tensor& x) { return x * 2.0; }), pair()));
}

TEST_F(PartitionTest, AMissingDeviceInsideIsNamedAndTheFunctionStaysUsable) {
  bool broken = true;
  const auto f = function([&](const Tensor& x) {
    const auto scope = device(broken ? "/GPU:7" : "/GPU:1");
    return x * 2.0;
  });
  EXPECT_TRUE(throws<NotFound>([&] { f(pair()); }, {"/device:GPU:7", "does not exist"}));
  broken = false;
  EXPECT_EQ(f(pair()).to_vector<float>(), (Floats{2, 4}));
}

}  // namespace
}  // namespace tandem
