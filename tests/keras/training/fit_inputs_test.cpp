/// The data that fit, evaluate and predict take: few samples, other dtypes, data sets, generators.
#include "harness/throws.h"
#include "keras/training/like_keras.h"

namespace tandem::keras {
namespace {

using data::Dataset;
using harness::throws;
using layers::Dense;

class FitInputs : public LikeKeras {
 protected:
  static Tensor x() { return range(0, 8); }
  static Tensor y() { return Tensor::of<float>({0, 1, 0, 1, 1, 0, 1, 1}); }
  static CompileOptions options(const Loss& loss = "mse") {
    return {.optimizer = optimizers::SGD(0.125), .loss = loss};
  }
};

INSTANTIATE_TEST_SUITE_P(On, FitInputs, testing::Values(1, 2), replicas_name);

TEST_P(FitInputs, SixNumbersAreEnoughForABatchOfThirtyTwo) {
  const Sequential model = linear({.optimizer = optimizers::SGD(0.0625), .loss = "mse"});
  const Tensor xs = Tensor::of({-1.0, 0.0, 1.0, 2.0, 3.0, 4.0});
  const Tensor ys = Tensor::of({-3.0, -1.0, 1.0, 3.0, 5.0, 7.0});
  FitOptions options = quiet(3);
  options.shuffle = true;
  expect_history(model.fit(xs, ys, options), {{"loss", {3.166667, 0.918258, 0.643761}}}, "six");
  EXPECT_NO_THROW(model.fit(xs, ys, quiet(1, 1'000'000'000)));
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.fit(xs, ys, quiet(1, 0)); },
                                      {"fit: batch_size is 0, 1 or more"}));
}

constexpr DType kOthers[] = {DType::float64, DType::int32, DType::int64, DType::uint8,
                             DType::float16};

TEST_P(FitInputs, NumbersOfOtherDtypesAreCastForAFloat32Model) {
  CompileOptions measured = options();
  measured.metrics = {"mae"};
  const Values wanted{{"loss", {1.699219, 5.796358}}, {"mae", {1.03125, 1.916992}}};
  for (const DType dtype : kOthers) {
    const std::string what(name_of(dtype));
    const Tensor xs = cast(x(), dtype);
    const Tensor ys = cast(y(), dtype);
    const Sequential model = linear(measured);
    const Tensor predicted = model.predict(xs);
    EXPECT_EQ(predicted.dtype(), DType::float32) << what;
    EXPECT_EQ(predicted.to_vector<float>(), x().to_vector<float>()) << what;
    EXPECT_EQ(model(xs).dtype(), DType::float32) << what;
    EXPECT_NEAR(model.evaluate(xs, ys, {.verbose = Verbose::silent}).at("loss"), 12.875, 1e-5);
    expect_history(model.fit(xs, ys, quiet(2, 4)), wanted, what);
    expect_history(linear(measured).fit(Dataset::from_tensor_slices(xs, ys).batch(4), quiet(2)),
                   wanted, what + " data set");
    for (const Tensor& weight : model.get_weights()) EXPECT_EQ(weight.dtype(), DType::float32);
  }
  expect_history(
      linear(measured).fit(cast(x(), DType::boolean), cast(y(), DType::boolean), quiet(2, 4)),
      {{"loss", {0.226562, 0.186251}}, {"mae", {0.28125, 0.344238}}}, "bool");
}

TEST_P(FitInputs, ALossOfOnesOwnGetsTheTruthAsThePredictionsAre) {
  DType seen = DType::boolean;
  const auto own = [&seen](const Tensor& y_true, const Tensor& y_pred) {
    seen = y_true.dtype();
    return square(expand_dims(y_true, -1) - y_pred);
  };
  for (const DType dtype : kOthers) {
    expect_history(linear(options(own)).fit(cast(x(), dtype), cast(y(), dtype), quiet(2, 4)),
                   {{"loss", {1.699219, 5.796358}}}, std::string(name_of(dtype)));
    EXPECT_EQ(seen, DType::float32);
  }
  // Classes stay as they are.
  const Loss classes("own", own, Reduction::sum_over_batch_size, {.are_classes = true});
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        classes(cast(y(), DType::int32), zeros({8, 1}));
      },
      {}));
  EXPECT_EQ(seen, DType::int32);
}

/// A model of one's own whose layer makes its weights when it first sees data.
struct Own : LayerBody {
  Own() : LayerBody("own") {}
  Tensors call(const Tensors& inputs, const CallContext& context) override {
    return {dense(expand_dims(inputs[0], -1), context)};
  }
  Dense dense = add_layer("dense", Dense(1, {.kernel_initializer = "ones"}));
};

TEST_P(FitInputs, ModelsWithoutWeightsYetTakeWholeNumbers) {
  for (const DType dtype : {DType::int32, DType::int64, DType::uint8}) {
    const Tensor xs = cast(x(), dtype);
    const Sequential sequential({Dense(1, {.kernel_initializer = "ones"})});
    sequential.compile({.optimizer = optimizers::SGD(0.01), .loss = "mse"});
    expect_history(sequential.fit(expand_dims(xs, -1), cast(y(), dtype), quiet(1, 4)),
                   {{"loss", {11.462575}}}, std::string(name_of(dtype)));
    EXPECT_EQ(sequential.get_weights()[0].dtype(), DType::float32);
    const Model own = make_model<Own>();
    own.compile({.optimizer = optimizers::SGD(0.01), .loss = "mse"});
    expect_history(own.fit(xs, cast(y(), dtype), quiet(1, 4)), {{"loss", {11.462575}}}, "own");
    EXPECT_EQ(own.predict(cast(xs, DType::float64)).dtype(), DType::float32);
  }
}

TEST_P(FitInputs, LayersCastFloatingInputsToTheDtypeOfTheirWeights) {
  const Dense dense(2);
  EXPECT_EQ(dense(ones({3, 2})).dtype(), DType::float32);
  for (const DType dtype : kOthers) {
    EXPECT_EQ(dense(ones({3, 2}, dtype)).dtype(), DType::float32) << name_of(dtype);
  }
  const layers::Flatten flatten;
  flatten(ones({3, 2}));
  EXPECT_EQ(flatten(ones({3, 2}, DType::int32)).dtype(), DType::int32);
  const layers::Embedding embedding(4, 2);
  const auto row = embedding(Tensor::of<int32_t>({3})).to_vector<float>();
  EXPECT_EQ(embedding(Tensor::of({3.0})).to_vector<float>(), row);
  EXPECT_EQ(embedding(Tensor::of<uint8_t>({3})).to_vector<float>(), row);
}

TEST_P(FitInputs, AnAxisOfSizeOneMayBeLeftOutOrAdded) {
  const Sequential model = linear(options());
  EXPECT_EQ(model.predict(x()).shape(), (Shape{8, 1}));
  EXPECT_EQ(model.predict(reshape(x(), {8, 1, 1})).shape(), (Shape{8, 1}));
  const auto input = Input({});
  const Model scalars({input}, {layers::Lambda([](const Tensor& t) { return t * 2.0; })(input)});
  EXPECT_EQ(scalars.predict(reshape(x(), {8, 1})).shape(), (Shape{8}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.predict(ones({8, 2})); }, {"dense"}));
}

TEST_P(FitInputs, EvaluateAndPredictTakeDataSetsAndGenerators) {
  const Sequential model = linear(options());
  const auto arrays = Dataset::from_tensor_slices(x(), y()).batch(3);
  const auto generator = Dataset::from_generator([] {
    return [row = int64_t{0}]() mutable -> std::optional<std::pair<Tensor, Tensor>> {
      if (row == 8) return std::nullopt;
      const int64_t begin = row;
      row = std::min<int64_t>(row + 3, 8);
      return std::pair(x().rows(begin, row), y().rows(begin, row));
    };
  });
  const double loss = model.evaluate(x(), y(), {.verbose = Verbose::silent}).at("loss");
  for (const Dataset& batches : {arrays, generator, arrays.map([](const Tensor&a, const Tensor&b) {
                                   return std::pair(a, b);
                                 })}) {
    EXPECT_NEAR(model.evaluate(batches, {.verbose = Verbose::silent}).at("loss"), loss, 1e-5);
    EXPECT_EQ(model.predict(batches).to_vector<float>(), x().to_vector<float>());
    FitOptions validated = quiet(1);
    validated.validation_data = batches;
    const Sequential fresh = linear(options());
    const History history = fresh.fit(batches, validated);
    EXPECT_NEAR(history.history.at("val_loss")[0],
                fresh.evaluate(x(), y(), {.verbose = Verbose::silent}).at("loss"), 1e-3);
  }
  // Inputs alone are enough to predict from.
  const auto inputs = Dataset::from_tensor_slices(x()).batch(5);
  EXPECT_EQ(model.predict(inputs).to_vector<float>(), x().to_vector<float>());
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.evaluate(inputs); }, {"1 tensors"}));
}

TEST_P(FitInputs, AModelOfSeveralOutputsPredictsThemAll) {
  const auto a = Input({1});
  const auto b = Input({1});
  const Model model({a, b},
                    {layers::Add()(KerasTensors{a, b}), layers::Multiply()(KerasTensors{a, b})});
  const Tensor ones = fill({8}, 1);
  const auto batches = Dataset::from_tensor_slices(x(), ones).batch(3);
  const Tensors outputs = model.predict_all(batches);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].to_vector<float>(), (x() + 1.0).to_vector<float>());
  EXPECT_EQ(outputs[1].to_vector<float>(), x().to_vector<float>());
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { model.predict(batches); }, {"2 outputs", "call predict_all"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { model.predict_all(Dataset::from_tensor_slices(x()).batch(3)); },
                              {"an element of the data set has 1 tensors", "2 inputs"}));
}

}  // namespace
}  // namespace tandem::keras
