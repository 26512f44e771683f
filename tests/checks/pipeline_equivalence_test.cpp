/// The result of one device through pipelines and in micro-batches: every kind of model, stages
/// found by costs and given by scopes, batches that do not divide.
#include "checks/models.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"

namespace tandem::checks {
namespace {

using distribute::PipelineOptions;
using distribute::PipelineStrategy;
using distribute::Strategy;
using keras::CompileOptions;
namespace optimizers = keras::optimizers;

class PipelineEquivalenceTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}, {.threads = 1}, {.threads = 1}});
  }

  static void expect_same(const TrainingCase& training, const std::vector<Strategy>& strategies) {
    const Equivalence result = check_equivalence(training, strategies);
    EXPECT_TRUE(result.same) << result.text;
  }

  static std::vector<Strategy> pipelines() {
    return {
        PipelineStrategy({.stages = 1, .microbatches = 3}),
        PipelineStrategy({.stages = 2, .microbatches = 4}),
        PipelineStrategy({.stages = 3, .microbatches = 2, .schedule = "gpipe"}),
        PipelineStrategy({.stages = 4, .microbatches = 5}),
        PipelineStrategy({.stages = 2, .microbatches = 3, .replicas = 2}),
        PipelineStrategy({.stages = 2, .microbatches = 4, .schedule = "interleaved", .chunks = 2})};
  }
};

TEST_F(PipelineEquivalenceTest, Mlp) { expect_same(models::mlp(), pipelines()); }
TEST_F(PipelineEquivalenceTest, Transformer) { expect_same(models::transformer(), pipelines()); }
TEST_F(PipelineEquivalenceTest, Embedding) { expect_same(models::embedding(), pipelines()); }
TEST_F(PipelineEquivalenceTest, Convnet) { expect_same(models::plain_convnet(), pipelines()); }

/// The second time they have the same dropout.
TEST_F(PipelineEquivalenceTest, RecomputedLayers) {
  TrainingCase training = models::mlp();
  training.model = [] {
    namespace layers = keras::layers;
    const auto block = [] {
      return layers::Recompute(
          keras::Sequential({layers::Dense(16, {.activation = "gelu"}), layers::Dropout(0.2),
                             layers::Dense(8, {.activation = "tanh"})}));
    };
    return keras::Sequential({block(), block(), block(), layers::Dense(3)});
  };
  expect_same(training, pipelines());
}

/// What a loss is divided by is known before the first micro-batch goes through the model.
TEST_F(PipelineEquivalenceTest, MaskedOutputs) {
  expect_same(models::masked_outputs(), pipelines());
}

/// Each micro-batch would have to wait for all others.
TEST_F(PipelineEquivalenceTest, SynchronizedStatisticsAreRefused) {
  EXPECT_TRUE(harness::throws<Unimplemented>(
      [&] {
        check_equivalence(models::convnet(), {PipelineStrategy({.stages = 1, .microbatches = 3})});
      },
      {"micro-batch"}));
}

TEST_F(PipelineEquivalenceTest, BatchesThatDivideAndThatDoNot) {
  for (int64_t batch : {60, 12, 7, 3, 1}) {
    TrainingCase training = models::mlp();
    training.batch_size = batch;
    training.epochs = 1;
    expect_same(training, {PipelineStrategy({.stages = 2, .microbatches = 4})});
  }
}

}  // namespace
}  // namespace tandem::checks
