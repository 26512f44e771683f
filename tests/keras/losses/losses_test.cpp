#include "tandem/keras/losses.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fixtures/keras_values.h"
#include "harness/op_check.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using harness::throws;

/// A loss of the file: how it is made with a reduction, and its arguments.
struct Case {
  std::string name;
  std::function<Loss(Reduction)> make;
  std::string y_true;
  std::string y_pred;
};

std::vector<Case> cases() {
  using namespace losses;
  const auto categorical = [](bool from_logits, double smoothing) {
    return [=](Reduction reduction) -> Loss {
      return CategoricalCrossentropy(
          {.from_logits = from_logits, .label_smoothing = smoothing, .reduction = reduction});
    };
  };
  const auto sparse = [](bool from_logits) {
    return [=](Reduction reduction) -> Loss {
      return SparseCategoricalCrossentropy({.from_logits = from_logits, .reduction = reduction});
    };
  };
  const auto binary = [](bool from_logits, double smoothing) {
    return [=](Reduction reduction) -> Loss {
      return BinaryCrossentropy(
          {.from_logits = from_logits, .label_smoothing = smoothing, .reduction = reduction});
    };
  };
  return {
      {"categorical_logits", categorical(true, 0), "soft", "scores"},
      {"categorical_logits_smooth", categorical(true, 0.1), "one_hot", "scores"},
      {"categorical", categorical(false, 0), "one_hot", "sure"},
      {"categorical_unscaled", categorical(false, 0), "soft", "unscaled"},
      {"categorical_smooth", categorical(false, 0.2), "one_hot", "sure"},
      {"sparse_logits", sparse(true), "classes", "scores"},
      {"sparse", sparse(false), "classes", "sure"},
      {"binary_logits", binary(true, 0), "binary", "logit"},
      {"binary", binary(false, 0), "binary", "probability"},
      {"binary_many", binary(false, 0.3), "many_binary", "probabilities"},
      {"mse", [](Reduction r) -> Loss { return MeanSquaredError({.reduction = r}); }, "targets",
       "scores"},
      {"mae", [](Reduction r) -> Loss { return MeanAbsoluteError({.reduction = r}); }, "targets",
       "scores"},
      {"huber", [](Reduction r) -> Loss { return Huber({.delta = 1.5, .reduction = r}); },
       "targets", "scores"},
  };
}

const std::vector<std::pair<Reduction, std::string>> kReductions = {
    {Reduction::sum_over_batch_size, "sum_over_batch_size"},
    {Reduction::sum, "sum"},
    {Reduction::mean_with_sample_weight, "mean_with_sample_weight"},
};

Loss sequence_loss(Reduction reduction) {
  return losses::SparseCategoricalCrossentropy({.from_logits = true, .reduction = reduction});
}

TEST(Losses, AreThoseOfKeras) {
  for (const Case& c : cases()) {
    const Tensor y_true = keras_value(c.y_true);
    const Tensor y_pred = keras_value(c.y_pred);
    const std::string name = "loss." + c.name + ".";
    expect_near(c.make(Reduction::none)(y_true, y_pred), keras_value(name + "none"), 1e-11, name);
    for (const auto& [reduction, word] : kReductions) {
      const Loss loss = c.make(reduction);
      expect_near(loss(y_true, y_pred), keras_value(name + word), 1e-11, name + word);
      expect_near(loss(y_true, y_pred, keras_value("sample_weight")),
                  keras_value(name + word + ".weighted"), 1e-11, name + word + ".weighted");
    }
  }
}

TEST(Losses, OfSequencesLeaveOutWhatIsMasked) {
  const Tensor y_true = keras_value("sequence_classes");
  const Tensor y_pred = keras_value("sequence");
  const Tensor mask = keras_value("sequence_mask");
  for (const auto& [reduction, word] : kReductions) {
    const Loss loss = sequence_loss(reduction);
    const std::string name = "sequence." + word;
    expect_near(loss(y_true, y_pred), keras_value(name), 1e-11, name);
    for (const Tensor& kept : {mask, cast(mask, DType::boolean), cast(mask, DType::int32)}) {
      expect_near(loss(y_true, y_pred, {}, kept), keras_value(name + ".masked"), 1e-11, name);
      expect_near(loss(y_true, y_pred, keras_value("sequence_weight"), kept),
                  keras_value(name + ".masked_weighted"), 1e-11, name);
    }
  }
  const Loss sum = sequence_loss(Reduction::sum);
  const Tensor expected = keras_value("sequence.sum.row_weight");
  const Tensor weight = keras_value("row_weight");
  expect_near(sum(y_true, y_pred, weight), expected, 1e-11, "column");
  expect_near(sum(y_true, y_pred, squeeze(weight)), expected, 1e-11, "one for each row");
}

TEST(Losses, AMeanOfNothingIsZero) {
  const Tensor y_pred = keras_value("sequence");
  const Tensor none = zeros({3, 5}, DType::boolean);
  GradientTape tape;
  tape.watch(y_pred);
  const Tensor loss = sequence_loss(Reduction::sum_over_batch_size)(keras_value("sequence_classes"),
                                                                    y_pred, {}, none);
  EXPECT_EQ(loss.item<double>(), 0);
  for (double slope : tape.gradient(loss, y_pred).to_vector<double>()) EXPECT_EQ(slope, 0);
}

TEST(Losses, TermsGiveTheMeanWhenDivided) {
  for (const auto& [reduction, word] : kReductions) {
    const Loss loss = sequence_loss(reduction);
    const auto [sum, weight] =
        loss.terms(keras_value("sequence_classes"), keras_value("sequence"),
                   keras_value("sequence_weight"), keras_value("sequence_mask"));
    expect_near(sum / weight, keras_value("sequence." + word + ".masked_weighted"), 1e-11, word);
  }
  const auto [sum, weight] =
      losses::MeanSquaredError().terms(keras_value("targets"), keras_value("scores"));
  EXPECT_EQ(weight.item<double>(), 6);
  EXPECT_NEAR(sum.item<double>(), keras_value("loss.mse.sum").item<double>(), 1e-11);
}

TEST(Losses, AreOpsInEveryWay) {
  for (const Case& c : cases()) {
    const Tensor y_true = keras_value(c.y_true);
    // Where probabilities are clipped there is a kink, and float32 clips elsewhere.
    const bool smooth = c.y_pred != "sure" && c.y_pred != "probability";
    harness::check_op(
        {.name = c.name,
         .inputs = {c.y_true == "classes" ? cast(y_true, DType::int32) : y_true,
                    keras_value(c.y_pred)},
         .f = [loss = c.make(Reduction::none)](const Tensors& in) { return loss(in[0], in[1]); },
         .expected = keras_value("loss." + c.name + ".none").to_vector<double>(),
         .shape = {6},
         .differentiable = smooth,
         .follows_rows = true,
         .tolerance = 1e-11,
         .float32_tolerance = smooth ? 1e-5 : 0});
  }
}

TEST(Losses, AreFoundByName) {
  const Tensor targets = keras_value("targets");
  const Tensor scores = keras_value("scores");
  for (const char* name : {"mse", "mean_squared_error"}) {
    EXPECT_EQ(Loss(name).name(), name);
    expect_near(Loss(name)(targets, scores), keras_value("loss.mse.sum_over_batch_size"), 1e-11,
                name);
  }
  expect_near(Loss("mae")(targets, scores), keras_value("loss.mae.sum_over_batch_size"), 1e-11,
              "mae");
  expect_near(Loss("sparse_categorical_crossentropy")(keras_value("classes"), keras_value("sure")),
              keras_value("loss.sparse.sum_over_batch_size"), 1e-11, "sparse");
  EXPECT_EQ(Loss("huber").name(), "huber");
  EXPECT_EQ(losses::Huber().name(), "huber_loss");
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { Loss("hinge"); },
      {"loss: 'hinge' is unknown; there are", "'categorical_crossentropy'", "'mse'", "'huber'"}));
}

TEST(Losses, MayBeAnyFunction) {
  const Loss cubes = [](const Tensor& y_true, const Tensor& y_pred) {
    return abs(pow(y_true - y_pred, scalar_like(3, y_pred)));
  };
  const Tensor truth = Tensor::of({1.0, 2.0}), prediction = Tensor::of({0.0, 4.0});
  EXPECT_DOUBLE_EQ(cubes(truth, prediction).item<double>(), 4.5);
  EXPECT_DOUBLE_EQ(cubes(truth, prediction, Tensor::of({1.0, 0.5})).item<double>(), 2.5);
}

TEST(Losses, AFunctionMayReduceTheLossesItself) {
  const auto sum = [](const Tensor& y_true, const Tensor& y_pred) {
    return reduce_sum(y_true - y_pred);
  };
  const Tensor truth = Tensor::of({1.0, 2.0}), prediction = Tensor::of({0.0, 4.0});
  const Tensor weight = Tensor::of({1.0, 0.5}), mask = Tensor::of({true, false});
  const auto value = [&](Reduction reduction, const auto&... weights) {
    return Loss("own", sum, reduction)(truth, prediction, weights...).template item<double>();
  };
  for (const Reduction reduction : {Reduction::sum_over_batch_size, Reduction::sum, Reduction::none,
                                    Reduction::mean_with_sample_weight}) {
    EXPECT_DOUBLE_EQ(value(reduction), -1);
  }
  // What Keras 3.15.1 makes of the scalar and the weights.
  EXPECT_DOUBLE_EQ(value(Reduction::sum_over_batch_size, weight), -0.75);
  EXPECT_DOUBLE_EQ(value(Reduction::sum, weight), -1.5);
  EXPECT_DOUBLE_EQ(value(Reduction::mean_with_sample_weight, weight), -1);
  EXPECT_DOUBLE_EQ(value(Reduction::sum_over_batch_size, weight, mask), -1);
  EXPECT_EQ(Loss("own", sum, Reduction::none)(truth, prediction, weight).to_vector<double>(),
            (std::vector<double>{-1, -0.5}));
  const LossTerm term = Loss(sum).terms(truth, prediction, weight);
  EXPECT_DOUBLE_EQ(term.sum.item<double>() / term.weight.item<double>(), -0.75);
}

TEST(Losses, TakeLabelsOfAnyDtypeAndShape) {
  const Tensor scores = keras_value("scores");
  const Tensor classes = keras_value("classes");
  const Tensor expected = keras_value("loss.sparse_logits.sum_over_batch_size");
  const Loss sparse = sequence_loss(Reduction::sum_over_batch_size);
  for (DType dtype : {DType::uint8, DType::int32, DType::int64, DType::float32}) {
    const Tensor labels = cast(classes, dtype);
    expect_near(sparse(labels, scores), expected, 1e-11, "[batch]");
    expect_near(sparse(expand_dims(labels, 1), scores), expected, 1e-11, "[batch,1]");
    const losses::CategoricalCrossentropy categorical({.from_logits = true});
    expect_near(categorical(cast(keras_value("one_hot"), dtype), scores), expected, 1e-11,
                "one-hot");
  }
  const losses::BinaryCrossentropy binary({.from_logits = true});
  const Tensor mean = keras_value("loss.binary_logits.sum_over_batch_size");
  const Tensor truth = cast(squeeze(keras_value("binary")), DType::boolean);
  const Tensor logit = keras_value("logit");
  expect_near(binary(truth, logit), mean, 1e-11, "[batch] and [batch,1]");
  expect_near(binary(expand_dims(truth, 1), squeeze(logit)), mean, 1e-11, "[batch,1] and [batch]");
  expect_near(binary(truth, squeeze(logit)), mean, 1e-11, "[batch] both");

  const Tensor half = cast(logit, DType::float16);
  EXPECT_NEAR(binary(truth, half).item<float>(), mean.item<double>(), 1e-2);
}

TEST(Losses, NameTheShapesThatDoNotFit) {
  const Tensor scores = zeros({6, 4});
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        losses::CategoricalCrossentropy()(zeros({6, 3}), scores);
      },
      {"categorical_crossentropy: y_true [6,3] and y_pred [6,4] do not fit",
       "[batch,..,classes]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { losses::SparseCategoricalCrossentropy()(zeros({5}), scores); },
      {"sparse_categorical_crossentropy: y_true [5] and y_pred [6,4]", "[batch,..,1]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { Loss("mse")(zeros({6}), scores); },
                                      {"mse: y_true [6] and y_pred [6,4]", "one shape"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        Loss("mse")(scores, zeros({6, 4}, DType::int32));
      },
      {"mse: y_pred is int32; predictions are floating"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { Loss("mse")(scores, scores, zeros({5})); },
      {"mse: sample_weight [5] does not fit values [6]; it has their leading axes"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        Loss("mse")(scores, scores, {}, zeros({6, 4}));
      },
      {"mse: mask [6,4] does not fit values [6]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { Loss("sparse_categorical_crossentropy")(fill({6}, 4), scores).item<float>(); },
      {"label", "4"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { losses::Huber({.delta = 0}); },
                                      {"huber_loss: delta 0 is not positive"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { losses::BinaryCrossentropy({.label_smoothing = 1.5}); },
                              {"binary_crossentropy: label_smoothing 1.5 is not in [0, 1]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { losses::MeanSquaredError({.reduction = Reduction::none}).terms(scores, scores); },
      {"mean_squared_error: a loss with Reduction::none has no sum"}));
}

TEST(Losses, OfLogitsAddNothingToTheFusedOps) {
  const Tensor scores = cast(keras_value("scores"), DType::float32);
  const Tensor soft = cast(keras_value("soft"), DType::float32);
  const Tensor classes = cast(keras_value("classes"), DType::int32);
  const auto program = [&](const Tensor& y_true, const auto& loss) {
    const auto step = function([&](const Tensor& truth, const Tensor& y_pred) {
      GradientTape tape;
      tape.watch(y_pred);
      return tape.gradient(loss(truth, y_pred), y_pred);
    });
    step(y_true, scores);
    EXPECT_NE(step.explain().find("softmax_cross_entropy("), std::string::npos);
    return step.explain();
  };
  const losses::CategoricalCrossentropy categorical({.from_logits = true});
  EXPECT_EQ(program(soft, categorical), program(soft, [](const Tensor& y_true, const Tensor& x) {
              return compute_average_loss(softmax_cross_entropy_with_logits(y_true, x));
            }));
  const losses::SparseCategoricalCrossentropy sparse({.from_logits = true});
  EXPECT_EQ(program(classes, sparse), program(classes, [](const Tensor& y_true, const Tensor& x) {
              return compute_average_loss(sparse_softmax_cross_entropy_with_logits(y_true, x));
            }));
}

TEST(ClassWeight, GivesEachLabelTheWeightOfItsClass) {
  const std::map<int64_t, double> weights = {{0, 0.5}, {2, 3}};
  const std::vector<float> expected = {0.5, 1, 3, 1};
  const Tensor labels = Tensor::from<int64_t>({0, 1, 2, 7}, {4});
  for (DType dtype : {DType::uint8, DType::int32, DType::int64, DType::float32}) {
    const Tensor classes = cast(labels, dtype);
    EXPECT_EQ(sample_weights_of(weights, classes).to_vector<float>(), expected);
    const Tensor column = sample_weights_of(weights, expand_dims(classes, 1));
    EXPECT_EQ(column.shape(), (Shape{4}));
    EXPECT_EQ(column.to_vector<float>(), expected);
    const Tensor one_hot_rows = cast(one_hot(labels, 8), dtype);
    EXPECT_EQ(sample_weights_of(weights, one_hot_rows).to_vector<float>(), expected);
  }
  const auto traced = function([&](const Tensor& y) { return sample_weights_of(weights, y); });
  EXPECT_EQ(traced(labels).to_vector<float>(), expected);
  EXPECT_EQ(sample_weights_of({}, Tensor::of<int64_t>({-1, 0})).to_vector<float>(),
            (std::vector<float>{1, 1}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        sample_weights_of({{-2, 1.0}}, labels);
      },
      {"class_weight: class -2 is not in [0, 16777216]"}));
}

}  // namespace
}  // namespace tandem::keras
