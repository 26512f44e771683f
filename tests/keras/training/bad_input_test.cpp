// What fit, evaluate and predict refuse: the message names the argument and what is accepted, and
// no weight has changed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

using data::Dataset;
using harness::throws;
using layers::BatchNormalization;
using layers::Dense;

class BadInputTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    random::set_seed(5);
    x_ = random_uniform({40, 4}, -1, 1);
    y_ = random_uniform({40, 1}, -1, 1);
    std::vector<int32_t> labels(40);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % 3);
    labels_ = Tensor::from(labels, {40});
  }

  static Sequential regression() {
    const Sequential model({Dense(3, {.input_shape = {4}}), BatchNormalization(), Dense(1)});
    model.compile({.optimizer = optimizers::Adam(0.1), .loss = "mse"});
    return model;
  }

  static Sequential classifier() {
    const Sequential model({Dense(5, {.input_shape = {4}}), BatchNormalization(), Dense(3)});
    model.compile({.optimizer = optimizers::Adam(0.1),
                   .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {"accuracy"}});
    return model;
  }

  static FitOptions quiet() {
    return {.batch_size = 8, .verbose = Verbose::silent, .shuffle = false};
  }
  static EvaluateOptions quietly() { return {.batch_size = 8, .verbose = Verbose::silent}; }

  Tensor with_label(size_t row, int32_t label) const {
    auto labels = labels_.to_vector<int32_t>();
    labels[row] = label;
    return Tensor::from(labels, {40});
  }

  /// `act` throws E with these words, and the weights of `model` are as before.
  template <class E, class Act>
  static void refused(const Model& model, const Act& act, const std::vector<std::string>& words) {
    std::vector<std::vector<float>> before;
    for (const Tensor& weight : model.get_weights()) before.push_back(weight.to_vector<float>());
    for (const std::string& word : words) EXPECT_TRUE(throws<E>(act, {word}));
    size_t i = 0;
    for (const Tensor& weight : model.get_weights()) {
      EXPECT_EQ(weight.to_vector<float>(), before[i++]) << words[0];
    }
  }

  Tensor x_, y_, labels_;
};

TEST_F(BadInputTest, AModelThatIsNotCompiled) {
  const Sequential model({Dense(1, {.input_shape = {4}})}, "plain");
  const std::vector<std::string> words = {"'plain' is not compiled", "compile({.optimizer = .."};
  refused<FailedPrecondition>(
      model, [&] { model.fit(x_, y_, quiet()); }, words);
  refused<FailedPrecondition>(
      model, [&] { model.evaluate(x_, y_, quietly()); }, words);
  refused<FailedPrecondition>(
      model, [&] { model.train_on_batch({x_}, {y_}); }, words);
  EXPECT_NO_THROW(model.predict(x_));
}

TEST_F(BadInputTest, NamesThatDoNotExist) {
  const Sequential model({Dense(1, {.input_shape = {4}})});
  const auto compile = [&](const CompileOptions& options) { model.compile(options); };
  refused<InvalidArgument>(model, [&] { compile({.optimizer = "adamm", .loss = "mse"}); },
                           {"optimizer: 'adamm' is unknown", "adam, adamw"});
  refused<InvalidArgument>(model, [&] { compile({.loss = "msee"}); },
                           {"loss: 'msee' is unknown", "'mse'"});
  refused<InvalidArgument>(model, [&] { compile({.loss = "mse", .metrics = {"accurcy"}}); },
                           {"metric: 'accurcy' is unknown", "'accuracy'"});
  refused<InvalidArgument>(model, [&] { compile({}); }, {"compile: loss is empty"});
  refused<InvalidArgument>(model,
                           [&] {
                             compile({.loss = "mse", .loss_weights = {1, 2}});
                           },
                           {"compile: 2 loss_weights for 1 losses"});
}

TEST_F(BadInputTest, ShapesThatDoNotFit) {
  const Sequential model = regression();
  const Tensor wide = ones({40, 5});
  refused<InvalidArgument>(model, [&] { model.fit(wide, y_, quiet()); }, {"dense", "5", "4"});
  refused<InvalidArgument>(model, [&] { model.evaluate(wide, y_, quietly()); }, {"dense"});
  refused<InvalidArgument>(model, [&] { model.predict(wide); }, {"dense"});
  refused<InvalidArgument>(model,
                           [&] {
                             model.fit(x_, ones({40, 2}), quiet());
                           },
                           {"mse: y_true [", ",2] and y_pred [", "accepted are one shape"});
  refused<InvalidArgument>(model, [&] { model.fit(x_, y_.rows(0, 39), quiet()); },
                           {"fit: y 0 has 39 rows, x has 40"});
  refused<InvalidArgument>(model, [&] { model.fit(Tensor(1.0f), y_, quiet()); },
                           {"fit: x 0 has no rows"});
}

TEST_F(BadInputTest, LabelsThatAreNoClass) {
  const Sequential model = classifier();
  for (const int32_t label : {3, -1}) {
    // In the last batch: all of y is looked at before the first step.
    const Tensor bad = with_label(37, label);
    const std::vector<std::string> words = {fmt::format("y 0 has the label {} in row 37", label),
                                            "3 classes, 0 to 2 are accepted"};
    refused<InvalidArgument>(
        model, [&] { model.fit(x_, bad, quiet()); }, words);
    refused<InvalidArgument>(
        model, [&] { model.evaluate(x_, bad, quietly()); }, words);
    refused<InvalidArgument>(
        model, [&] { model.train_on_batch({x_}, {bad}); }, words);
    FitOptions options = quiet();
    options.validation_data = ValidationData{{x_}, {bad}};
    refused<InvalidArgument>(model, [&] { model.fit(x_, labels_, options); },
                             {"fit: validation_data: y 0 has the label"});
  }
  const Tensor missing = cast(labels_, DType::float32) * std::numeric_limits<double>::quiet_NaN();
  refused<InvalidArgument>(model, [&] { model.fit(x_, missing, quiet()); }, {"the label nan"});
}

TEST_F(BadInputTest, ALabelOfADataSetIsFoundInItsBatch) {
  const Sequential model = classifier();
  const auto batches = [&](const Tensor& y) { return Dataset::from_tensor_slices(x_, y).batch(8); };
  refused<InvalidArgument>(model, [&] { model.fit(batches(with_label(3, 7)), quiet()); },
                           {"label 7"});
  refused<InvalidArgument>(model, [&] { model.evaluate(batches(with_label(3, 7)), quietly()); },
                           {"label 7"});
  // The bad label is in a later batch: the weights are those before its step.
  const Sequential twin = classifier();
  twin.set_weights(model.get_weights());
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.fit(batches(with_label(18, 7)), quiet()); },
                                      {"label 7"}));
  twin.fit(batches(labels_).take(2), quiet());
  for (size_t i = 0; i < model.weights().size(); ++i) {
    EXPECT_EQ(model.get_weights()[i].to_vector<float>(), twin.get_weights()[i].to_vector<float>());
  }
}

TEST_F(BadInputTest, WeightsOfClassesThatDoNotExist) {
  const Sequential model = classifier();
  FitOptions options = quiet();
  for (const int64_t label : {3, -1}) {
    options.class_weight = {{0, 1.0}, {label, 2.0}};
    refused<InvalidArgument>(
        model, [&] { model.fit(x_, labels_, options); },
        {fmt::format("fit: class_weight names class {}", label), "0 to 2 are accepted"});
  }
  options.class_weight = {{0, 1.0}};
  const auto batches = Dataset::from_tensor_slices(x_, labels_).batch(8);
  refused<InvalidArgument>(model, [&] { model.fit(batches, options); },
                           {"fit: class_weight goes with arrays"});
}

TEST_F(BadInputTest, TooFewSamples) {
  const Sequential model = regression();
  const auto none = Dataset::from_tensor_slices(x_, y_).take(0).batch(8);
  refused<InvalidArgument>(model, [&] { model.fit(none, quiet()); }, {"data set is empty"});
  refused<InvalidArgument>(model, [&] { model.evaluate(none, quietly()); }, {"data set is empty"});
  const auto unknown = Dataset::from_tensor_slices(x_, y_)
                           .filter([](const Tensor&, const Tensor&) { return false; })
                           .batch(8);
  refused<InvalidArgument>(model, [&] { model.fit(unknown, quiet()); }, {"data set is empty"});
  refused<InvalidArgument>(model, [&] { model.fit(x_.rows(0, 0), y_.rows(0, 0), quiet()); },
                           {"fit: there are no samples"});
  FitOptions options = quiet();
  for (const int64_t size : {0, -1}) {
    options.batch_size = size;
    refused<InvalidArgument>(model, [&] { model.fit(x_, y_, options); },
                             {fmt::format("fit: batch_size is {}, 1 or more is accepted", size)});
  }
}

TEST_F(BadInputTest, OtherNumbersOfInputsAndOutputs) {
  const Sequential model = regression();
  const auto words = [](const char* what) { return std::vector<std::string>{what}; };
  refused<InvalidArgument>(
      model,
      [&] {
        model.fit({x_, x_}, {y_}, quiet());
      },
      words("fit: x has 2 tensors, model '"));
  refused<InvalidArgument>(
      model,
      [&] {
        model.fit({x_, y_}, Tensors{}, quiet());
      },
      words("fit: x has 2 tensors"));
  refused<InvalidArgument>(model,
                           [&] {
                             model.fit({x_}, {y_, y_}, quiet());
                           },
                           {"fit: y has 2 tensors", "has 1 output"});
  refused<InvalidArgument>(model,
                           [&] {
                             model.predict(Tensors{x_, x_});
                           },
                           {"predict: x has 2 tensors", "has 1 input"});
  const auto lone = Dataset::from_tensor_slices(x_).batch(8);
  refused<InvalidArgument>(model, [&] { model.fit(lone, quiet()); },
                           {"an element of the data set has 1 tensors", "1 for the inputs"});
  const auto a = Input({4});
  const Model two({a}, {Dense(1)(a), Dense(1)(a)});
  refused<InvalidArgument>(two,
                           [&] {
                             two.compile({.loss = {"mse", "mse", "mse"}});
                           },
                           {"compile: loss has 3 losses", "2 outputs", "one for each"});
  two.compile({.loss = "mse"});
  refused<InvalidArgument>(two, [&] { two.fit({x_}, {y_}, quiet()); },
                           {"fit: y has 1 tensors", "has 2 outputs"});
  FitOptions weighted = quiet();
  weighted.class_weight = {{0, 1.0}};
  refused<InvalidArgument>(two,
                           [&] {
                             two.fit({x_}, {y_, y_}, weighted);
                           },
                           {"fit: class_weight goes with one output", "sample_weight"});
}

TEST_F(BadInputTest, SampleWeightsThatDoNotFit) {
  const Sequential model = regression();
  FitOptions options = quiet();
  options.sample_weight = ones({39});
  refused<InvalidArgument>(model, [&] { model.fit(x_, y_, options); },
                           {"fit: sample_weight 0 has 39 rows, x has 40"});
  options.sample_weight = ones({40, 3});
  refused<InvalidArgument>(model, [&] { model.fit(x_, y_, options); },
                           {"mse: sample_weight [", ",3] does not fit values ["});
}

TEST_F(BadInputTest, NumbersThatAreNone) {
  const Sequential model = regression();
  auto values = x_.to_vector<float>();
  values[2] = std::numeric_limits<float>::quiet_NaN();
  const Tensor bad = Tensor::from(values, x_.shape());
  refused<InvalidArgument>(model, [&] { model.fit(bad, y_, quiet()); },
                           {"fit: the loss is nan in step 1 of epoch 1", "values in x and y"});
}

TEST_F(BadInputTest, OutputsAreNamedAfterTheirLayers) {
  const auto a = Input({4});
  const Model model({a}, {Dense(1, {.name = "first"})(a), Dense(1, {.name = "second"})(a)});
  model.compile({.loss = "mse", .loss_weights = {1, 3}, .metrics = {"mae"}});
  FitOptions options = quiet();
  options.validation_split = 0.2;
  const auto history = model.fit({x_}, {y_, y_}, options).history;
  std::string names;
  for (const auto& [name, values] : history) names += name + " ";
  EXPECT_EQ(names,
            "first_loss first_mae loss second_loss second_mae val_first_loss val_first_mae "
            "val_loss val_second_loss val_second_mae ");
  EXPECT_NEAR(history.at("loss")[0], history.at("first_loss")[0] + 3 * history.at("second_loss")[0],
              1e-5);
}

}  // namespace
}  // namespace tandem::keras
