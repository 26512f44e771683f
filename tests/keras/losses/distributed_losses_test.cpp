#include <gtest/gtest.h>

#include "fixtures/keras_values.h"
#include "harness/fresh_devices.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using distribute::MirroredStrategy;
using distribute::ReduceOp;

class DistributedLosses : public harness::FreshDevices {
 protected:
  static void use_replicas(int count) {
    restart();
    config::set_logical_cpus(std::vector<config::LogicalCpu>(static_cast<size_t>(count)));
  }
};

/// What a loss gives to training: its value and its slope, which all replicas sum.
struct Step {
  double loss = 0;
  std::vector<double> slope;
};

/// Sequences of the first `rows` rows, weighted, masked or neither; w scales the scores.
Step step_on(const MirroredStrategy& strategy, const Loss& loss, int64_t rows, bool weighted,
             bool masked) {
  const auto scope = strategy.scope();
  const Variable w(Tensor::of({1.0, -0.5, 2.0, 0.3}), {.name = "w"});
  const Variable slope(zeros({4}, DType::float64),
                       {.trainable = false, .aggregation = VariableAggregation::sum});
  const auto step = function(
      [&](const Tensor& x, const Tensor& y_true, const Tensor& weight, const Tensor& mask) {
        GradientTape tape;
        const Tensor value =
            loss(y_true, x * w, weighted ? weight : Tensor(), masked ? mask : Tensor());
        slope.assign(tape.gradient(value, w));
        return value;
      });
  const auto part = [&](const char* name) {
    return strategy.split(keras_value(name).rows(0, rows));
  };
  const auto losses = strategy.run(step, part("sequence"), part("sequence_classes"),
                                   part("sequence_weight"), part("sequence_mask"));
  return {strategy.reduce(ReduceOp::sum, losses).item<double>(), slope.value().to_vector<double>()};
}

TEST_F(DistributedLosses, SumToTheLossOfOneDevice) {
  for (Reduction reduction :
       {Reduction::sum_over_batch_size, Reduction::sum, Reduction::mean_with_sample_weight}) {
    const losses::SparseCategoricalCrossentropy loss({.from_logits = true, .reduction = reduction});
    for (int64_t rows : {3, 2, 1}) {
      for (int kind = 0; kind < 4; ++kind) {
        const bool weighted = kind % 2 == 1;
        const bool masked = kind / 2 == 1;
        use_replicas(1);
        const Step one = step_on(MirroredStrategy(), loss, rows, weighted, masked);
        EXPECT_GT(one.loss, 0.1);
        for (int replicas : {2, 3}) {  // Uneven parts, and with fewer rows empty ones.
          use_replicas(replicas);
          const Step many = step_on(MirroredStrategy(), loss, rows, weighted, masked);
          EXPECT_NEAR(many.loss, one.loss, 1e-12) << rows << " rows on " << replicas;
          ASSERT_EQ(many.slope.size(), one.slope.size());
          for (size_t i = 0; i < one.slope.size(); ++i) {
            EXPECT_NEAR(many.slope[i], one.slope[i], 1e-12) << rows << " rows on " << replicas;
          }
        }
      }
    }
  }
}

TEST_F(DistributedLosses, TermsSumToTheTermsOfOneDevice) {
  for (Reduction reduction :
       {Reduction::sum_over_batch_size, Reduction::sum, Reduction::mean_with_sample_weight}) {
    const losses::MeanSquaredError loss({.reduction = reduction});
    const auto terms = [&](const MirroredStrategy& strategy) {
      const auto step =
          function([&](const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
            const LossTerm term = loss.terms(y_true, y_pred, weight);
            return stack({term.sum, term.weight});
          });
      const auto part = [&](const char* name) {
        return strategy.split(keras_value(name).rows(0, 2));
      };
      const auto result =
          strategy.run(step, part("targets"), part("scores"), part("sample_weight"));
      return strategy.reduce(ReduceOp::sum, result).to_vector<double>();
    };
    use_replicas(1);
    const auto one = terms(MirroredStrategy());
    use_replicas(3);
    const auto three = terms(MirroredStrategy());
    EXPECT_NEAR(three[0], one[0], 1e-12);
    EXPECT_NEAR(three[1], one[1], 1e-12);
  }
}

}  // namespace
}  // namespace tandem::keras
