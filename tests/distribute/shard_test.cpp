// Replicas that keep parts of slots, gradients and variables: what each device holds, and what is
// refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/classifier.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/distribute.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/ops.h"

namespace tandem::distribute {
namespace {

namespace layers = keras::layers;
using harness::throws;

constexpr int kCpus = 4;
constexpr int64_t kWidth = 256;
constexpr int kLayers = 12;
constexpr size_t kKernelBytes = size_t{kLayers} * kWidth * kWidth * sizeof(float);

void use_cpus(size_t memory_limit) {
  devices::reset_devices();
  config::set_logical_cpus(
      std::vector<config::LogicalCpu>(kCpus, {.threads = 1, .memory_limit = memory_limit}));
}

/// Trains equal layers and returns the losses.
std::vector<double> losses(const Strategy& strategy,
                           const keras::optimizers::Optimizer& optimizer) {
  const auto scope = strategy.scope();
  random::set_seed(3);
  const keras::Sequential model;
  for (int i = 0; i < kLayers; ++i) {
    model.add(layers::Dense(kWidth, {.activation = "relu", .name = fmt::format("layer{}", i)}));
  }
  model.compile({.optimizer = optimizer, .loss = "mse"});
  return model
      .fit(ones({16, kWidth}), ones({16, kWidth}),
           {.batch_size = 8, .epochs = 3, .verbose = keras::Verbose::silent})
      .history.at("loss");
}

class ShardTest : public harness::FreshDevices {
 protected:
  static std::vector<double> by(Shard shard) {
    const MirroredStrategy strategy({}, {.shard = shard});
    const auto scope = strategy.scope();
    return losses(strategy, keras::optimizers::Adam(0.001));
  }

  /// The most memory of a device other than the first, which the host's own tensors are on.
  static size_t peak() {
    size_t most = 0;
    for (int i = 1; i < kCpus; ++i) {
      most = std::max(most, config::get_memory_info(fmt::format("/CPU:{}", i)).peak);
    }
    return most;
  }
};

TEST_F(ShardTest, EachDeviceKeepsItsPartOfWhatIsCut) {
  std::vector<double> expected;
  std::vector<size_t> on_first;
  for (Shard shard : {Shard::nothing, Shard::state, Shard::gradients, Shard::variables}) {
    use_cpus(0);
    const std::vector<double> found = by(shard);
    if (expected.empty()) expected = found;
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4);
    on_first.push_back(config::get_memory_info("/CPU:0").peak);
    const double others = static_cast<double>(peak()) / static_cast<double>(kKernelBytes);
    // A device has all gradients; a quarter of them and of Adam's two slots; a quarter of these
    // alone and a few kernels and gradients at a time; of the variables a quarter, too.
    const double most[] = {1.3, 1.95, 1.2, 1.5};
    EXPECT_LT(others, most[static_cast<int>(shard)]) << static_cast<int>(shard);
  }
  EXPECT_TRUE(std::ranges::is_sorted(on_first, std::ranges::greater())) << on_first[3];
}

TEST_F(ShardTest, AModelLargerThanEachDeviceTrains) {
  const auto train = [](const Strategy& strategy) {
    const auto scope = strategy.scope();
    return losses(strategy, keras::optimizers::SGD(0.01));
  };
  use_cpus(0);
  const std::vector<double> expected = train(OneDeviceStrategy("/CPU:0"));
  const size_t limit = kKernelBytes * 5 / 4;  // Kernels and their gradients take more.
  use_cpus(limit);
  EXPECT_TRUE(throws<ResourceExhausted>([&] { train(OneDeviceStrategy("/CPU:0")); },
                                        {"/device:CPU:0", "out of memory"}));
  const auto expect_losses = [&](const std::vector<double>& found) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4);
  };
  use_cpus(limit);
  expect_losses(train(MirroredStrategy({}, {.shard = Shard::variables})));
  // Stages have layers of their own, and join a few of them at a time.
  use_cpus(limit);
  std::vector<std::vector<std::string>> halves(2);
  for (int i = 0; i < kLayers; ++i) {
    halves[static_cast<size_t>(2 * i / kLayers)].push_back(fmt::format("layer{}", i));
  }
  expect_losses(
      train(ModelParallel(LayoutMap(DeviceMesh({2, 2}, {"data", "stage"})),
                          {.microbatches = 2, .layers = halves, .shard = Shard::variables})));
}

TEST_F(ShardTest, VariablesInPartsAreWholeToTheProgram) {
  use_cpus(0);
  const MirroredStrategy strategy({}, {.shard = Shard::variables});
  const auto scope = strategy.scope();
  std::vector<float> numbers(270);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const Variable w(Tensor::from(numbers, {90, 3}));  // The last part is padded.
  EXPECT_EQ(w.value().to_vector<float>(), numbers);
  w.assign_add(ones({90, 3}));
  EXPECT_EQ(w.value().to_vector<float>()[269], 270.f);
  const auto f = function([&](const Tensor& x) { return x + reduce_sum(w.value()); });
  const float sum = reduce_sum(w.value()).item<float>();
  EXPECT_EQ(strategy.gather(strategy.run(f, strategy.split(zeros({4}))), 0).to_vector<float>(),
            std::vector<float>(4, sum));
  EXPECT_EQ(f(zeros({1})).item<float>(), sum);  // Called without the strategy.
  const auto assigns = function([&](const Tensor& x) {
    w.assign(ones({90, 3}));
    return x;
  });
  EXPECT_TRUE(throws<Unimplemented>([&] { strategy.run(assigns, strategy.split(zeros({4}))); },
                                    {"assign", "cut over several devices"}));
  const keras::optimizers::Adam adam(0.1);
  EXPECT_TRUE(throws<FailedPrecondition>([&] { adam.apply_gradients({w.value()}, {w}); },
                                         {"cut over several devices", "strategy.run"}));
}

}  // namespace
}  // namespace tandem::distribute
