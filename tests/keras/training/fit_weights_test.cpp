/// What weights of samples do to losses and metrics, and losses of one's own that are a scalar.
#include "harness/throws.h"
#include "keras/training/like_keras.h"

namespace tandem::keras {
namespace {

using harness::throws;

class FitWeights : public LikeKeras {
 protected:
  static Tensor x() { return range(0, 8) / 8.0; }
  static Tensor y() { return Tensor::of<float>({0, 1, 0, 1, 1, 0, 1, 1}); }
  static Tensor weight() { return Tensor::of<float>({1, 2, 0.5, 1, 3, 0, 1, 0.25}); }

  static CompileOptions options(const Loss& loss = "mse") {
    return {.optimizer = optimizers::SGD(0.125), .loss = loss};
  }
  static Sequential measured() {
    CompileOptions all = options();
    all.metrics = {"mae", "accuracy"};
    all.weighted_metrics = {"mae", "accuracy"};
    return linear(all);
  }
  static FitOptions weighted(int64_t batch_size = 4) {
    FitOptions options = quiet(2, batch_size);
    options.sample_weight = weight();
    return options;
  }
  static EvaluateOptions evaluated(const Tensor& weight = {}, int64_t batch_size = 3) {
    return {.batch_size = batch_size, .verbose = Verbose::silent, .sample_weight = weight};
  }
};

INSTANTIATE_TEST_SUITE_P(On, FitWeights, testing::Values(1, 2), replicas_name);

TEST_P(FitWeights, WeightedMetricsCountSamplesByTheirWeightsAndMetricsDoNot) {
  expect_history(measured().fit(x(), y(), weighted()),
                 {{"loss", {0.290134, 0.160584}},
                  {"mae", {0.375824, 0.399907}},
                  {"accuracy", {0.625, 0.75}},
                  {"weighted_mae", {0.415754, 0.322787}},
                  {"weighted_accuracy", {0.657143, 0.771429}}},
                 "sample_weight");
  expect_history(measured().fit(x(), y(), quiet(2, 4)),
                 {{"loss", {0.24069, 0.223679}},
                  {"mae", {0.383423, 0.37544}},
                  {"accuracy", {0.625, 0.625}},
                  {"weighted_mae", {0.383423, 0.37544}},
                  {"weighted_accuracy", {0.625, 0.625}}},
                 "no weights");
}

TEST_P(FitWeights, WeightsOfClassesAreWeightsOfSamples) {
  FitOptions options = quiet(2, 4);
  options.class_weight = {{0, 9}, {1, 1}};
  expect_history(measured().fit(x(), y(), options),
                 {{"loss", {0.634158, 0.872099}},
                  {"mae", {0.420532, 0.519986}},
                  {"accuracy", {0.5, 0.5}},
                  {"weighted_mae", {0.310028, 0.380326}},
                  {"weighted_accuracy", {0.625, 0.625}}},
                 "class_weight");
}

TEST_P(FitWeights, SamplesHeldBackKeepTheirWeightsAndGetNoneOfTheirClass) {
  FitOptions options = weighted();
  options.validation_split = 0.5;
  expect_history(measured().fit(x(), y(), options),
                 {{"loss", {0.488281, 0.348189}},
                  {"mae", {0.4375, 0.435852}},
                  {"accuracy", {0.5, 0.75}},
                  {"weighted_mae", {0.555556, 0.505751}},
                  {"weighted_accuracy", {0.333333, 0.555556}},
                  {"val_loss", {0.091987, 0.043662}},
                  {"val_mae", {0.314148, 0.327773}},
                  {"val_accuracy", {0.75, 0.75}},
                  {"val_weighted_mae", {0.267729, 0.182024}},
                  {"val_weighted_accuracy", {1, 1}}},
                 "sample_weight");
  options.sample_weight = {};
  options.class_weight = {{0, 9}, {1, 1}};
  expect_history(measured().fit(x(), y(), options),
                 {{"loss", {0.429688, 0.422515}},
                  {"mae", {0.4375, 0.461792}},
                  {"accuracy", {0.5, 0.5}},
                  {"weighted_mae", {0.1875, 0.190991}},
                  {"weighted_accuracy", {0.9, 0.9}},
                  {"val_loss", {0.189785, 0.187337}},
                  {"val_mae", {0.403564, 0.398406}},
                  {"val_accuracy", {0.5, 0.5}},
                  {"val_weighted_mae", {0.403564, 0.398406}},
                  {"val_weighted_accuracy", {0.5, 0.5}}},
                 "class_weight");
}

TEST_P(FitWeights, ValidationDataHaveWeightsOfTheirOwnAndComeBeforeASplit) {
  FitOptions options = weighted();
  options.validation_split = 0.5;
  options.validation_data = {{x(), y(), weight()}};
  const Values wanted{{"loss", {0.290134, 0.160584}},
                      {"mae", {0.375824, 0.399907}},
                      {"accuracy", {0.625, 0.75}},
                      {"weighted_mae", {0.415754, 0.322787}},
                      {"weighted_accuracy", {0.657143, 0.771429}},
                      {"val_loss", {0.172249, 0.131672}},
                      {"val_mae", {0.37685, 0.406606}},
                      {"val_accuracy", {0.75, 0.625}},
                      {"val_weighted_mae", {0.339437, 0.299096}},
                      {"val_weighted_accuracy", {0.771429, 0.714286}}};
  expect_history(measured().fit(x(), y(), options), wanted, "arrays");
  const auto batches = data::Dataset::from_tensor_slices(x(), y(), weight()).batch(4);
  options = quiet(2);
  options.validation_data = batches;
  expect_history(measured().fit(batches, options), wanted, "data sets");
}

TEST_P(FitWeights, EvaluateAndOneStepDoTheSame) {
  const Logs wanted{{"loss", 0.346191},
                    {"mae", 0.40625},
                    {"accuracy", 0.5},
                    {"weighted_mae", 0.489286},
                    {"weighted_accuracy", 0.314286}};
  expect_logs(measured().evaluate(x(), y(), evaluated(weight())), wanted, "evaluate");
  expect_logs(measured().train_on_batch({x()}, {y()}, weight()), wanted, "train_on_batch");
  expect_logs(measured().evaluate(x(), y(), evaluated()),
              {{"loss", 0.242188},
               {"mae", 0.40625},
               {"accuracy", 0.5},
               {"weighted_mae", 0.40625},
               {"weighted_accuracy", 0.5}},
              "no weights");
}

TEST_P(FitWeights, NamesAreWeightedOrNumberedOnlyWhereTheyAreTaken) {
  CompileOptions alone = options();
  alone.weighted_metrics = {"mae"};
  expect_history(linear(alone).fit(x(), y(), weighted()),
                 {{"loss", {0.290134, 0.160584}}, {"mae", {0.415754, 0.322787}}}, "alone");
  CompileOptions twice = options();
  twice.metrics = {"mae", "mae"};
  twice.weighted_metrics = {"mae", "mae", "mse"};
  expect_history(linear(twice).fit(x(), y(), weighted()),
                 {{"loss", {0.290134, 0.160584}},
                  {"mae", {0.375824, 0.399907}},
                  {"mae_1", {0.375824, 0.399907}},
                  {"weighted_mae", {0.415754, 0.322787}},
                  {"weighted_mae_1", {0.415754, 0.322787}},
                  {"mse", {0.265265, 0.146819}}},
                 "twice");
}

TEST_P(FitWeights, EachOutputHasItsWeightedMetrics) {
  const auto input = Input({1});
  const auto output = [&](const char* name) {
    return layers::Dense(1, {.kernel_initializer = "ones", .name = name})(input);
  };
  const Model model({input}, {output("a"), output("b")});
  CompileOptions compile = options();
  compile.metrics = {"mae"};
  compile.weighted_metrics = {"mae"};
  model.compile(compile);
  FitOptions fit = weighted();
  fit.epochs = 1;
  expect_history(model.fit(Tensors{x()}, Tensors{y(), 1.0 - y()}, fit),
                 {{"loss", {0.687888}},
                  {"a_loss", {0.290134}},
                  {"a_mae", {0.375824}},
                  {"a_weighted_mae", {0.415754}},
                  {"b_loss", {0.397754}},
                  {"b_mae", {0.604553}},
                  {"b_weighted_mae", {0.532104}}},
                 "two outputs");
}

TEST_P(FitWeights, TheLossOfAnEpochIsTheMeanOfItsBatchesByTheirRows) {
  const auto mse = [](Reduction reduction) {
    return options(losses::MeanSquaredError({.reduction = reduction}));
  };
  const std::pair<Reduction, double> cases[] = {{Reduction::sum, 1.030273},
                                                {Reduction::mean_with_sample_weight, 0.287626},
                                                {Reduction::sum_over_batch_size, 0.346191}};
  for (const auto& [reduction, loss] : cases) {
    expect_logs(linear(mse(reduction)).evaluate(x(), y(), evaluated(weight())), {{"loss", loss}},
                "evaluate");
  }
  expect_history(linear(mse(Reduction::sum)).fit(x(), y(), weighted()),
                 {{"loss", {1.108241, 0.535296}}}, "sum");
  expect_history(linear(mse(Reduction::mean_with_sample_weight)).fit(x(), y(), weighted()),
                 {{"loss", {0.264963, 0.150105}}}, "mean_with_sample_weight");
}

Tensor column(const Tensor& truth) { return expand_dims(truth, -1); }
Tensor mean_of_squares(const Tensor& y_true, const Tensor& y_pred) {
  return reduce_mean(square(column(y_true) - y_pred));
}
Tensor sum_of_squares(const Tensor& y_true, const Tensor& y_pred) {
  return reduce_sum(square(column(y_true) - y_pred));
}

TEST_P(FitWeights, ALossOfOnesOwnMayBeAScalar) {
  const CompileOptions mean = options(mean_of_squares);
  expect_history(linear(mean).fit(x(), y(), quiet(2, 4)), {{"loss", {0.24069, 0.223679}}}, "of 4");
  expect_history(linear(mean).fit(x(), y(), quiet(2, 3)), {{"loss", {0.230566, 0.212186}}}, "of 3");
  expect_logs(linear(mean).evaluate(x(), y(), evaluated()), {{"loss", 0.242188}}, "evaluate");
  const CompileOptions sum = options(Loss("sum", sum_of_squares, Reduction::sum));
  expect_history(linear(sum).fit(x(), y(), quiet(2, 3)), {{"loss", {0.670455, 0.62058}}}, "sum");
}

TEST_P(FitWeights, WeightsScaleAScalarByTheirMeanOrTheirSum) {
  const CompileOptions mean = options(mean_of_squares);
  expect_history(linear(mean).fit(x(), y(), weighted()), {{"loss", {0.265664, 0.245511}}}, "of 4");
  expect_history(linear(mean).fit(x(), y(), weighted(3)), {{"loss", {0.286203, 0.265967}}}, "of 3");
  expect_logs(linear(mean).evaluate(x(), y(), evaluated(weight())), {{"loss", 0.298747}},
              "evaluate");
  const CompileOptions sum = options(Loss("sum", sum_of_squares, Reduction::sum));
  expect_history(linear(sum).fit(x(), y(), weighted(3)), {{"loss", {4.521462, 2.3358}}}, "sum");
}

TEST_P(FitWeights, AScalarOfNoRowsDoesNotCount) {
  const CompileOptions mean = options(mean_of_squares);
  const CompileOptions by_row = options();
  const auto losses = [&](const CompileOptions& compile) {
    return linear(compile).fit(x().rows(0, 3), y().rows(0, 3), quiet(2, 1)).history.at("loss");
  };
  expect_near(losses(mean), losses(by_row), "one row, perhaps two replicas");
}

TEST_P(FitWeights, AMetricOfOnesOwnMayBeAScalar) {
  CompileOptions compile = options();
  compile.metrics = {Metric("own", mean_of_squares)};
  const auto own = [&](int64_t batch_size) {
    return linear(compile).evaluate(x(), y(), evaluated({}, batch_size)).at("own");
  };
  EXPECT_NEAR(own(8), 0.242188, 2e-6);
  // Each batch counts once, as in Keras's Mean.
  const double squares[] = {0,    0.875 * 0.875, 0.25 * 0.25, 0.625 * 0.625,
                            0.25, 0.625 * 0.625, 0.0625,      0.015625};
  const auto mean = [&](int begin, int end) {
    double sum = 0;
    for (int i = begin; i < end; ++i) sum += squares[i];
    return sum / (end - begin);
  };
  EXPECT_NEAR(own(3), (mean(0, 3) + mean(3, 6) + mean(6, 8)) / 3, 2e-6);
  EXPECT_NEAR(own(1), mean(0, 8), 2e-6);
  compile.metrics = {};
  compile.weighted_metrics = {Metric("own", mean_of_squares)};
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { linear(compile).evaluate(x(), y(), evaluated(weight())); }, {"own", "sample_weight"}));
}

TEST_P(FitWeights, ALossThatIsNotReducedIsNamed) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { linear(options(losses::MeanSquaredError({.reduction = Reduction::none}))); },
      {"compile: loss 'mean_squared_error' has Reduction::none"}));
}

}  // namespace
}  // namespace tandem::keras
